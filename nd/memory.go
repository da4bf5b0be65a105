package nd

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// MRFlags are the rights of a memory region (ND_MR_FLAG). Reading it locally is always allowed.
type MRFlags uint32

// The rights.
const (
	MRAllowLocalWrite  MRFlags = 1 // target of Receive and Read
	MRAllowRemoteRead  MRFlags = 2
	MRAllowRemoteWrite MRFlags = 5 // includes local write
	MRReadSink         MRFlags = 8 // accepted, and not needed

	// MRDoNotSecureVM is accepted, and changes nothing: the protection of registered memory is never locked here. It must stay what it
	// was while the region is registered.
	MRDoNotSecureVM MRFlags = 0x80000000
)

const knownMRFlags = MRAllowLocalWrite | MRAllowRemoteRead | MRAllowRemoteWrite | MRReadSink | MRDoNotSecureVM

// MemoryRegion is memory that requests may use and peers may be granted access to. It has at most one registration at a
// time. It may be used from any goroutine.
type MemoryRegion struct {
	adapter *Adapter
	region  atomic.Pointer[provider.Region] // the registration, or the last one; nil before the first

	mu         sync.Mutex
	registered bool         // guarded by mu
	closed     bool         // guarded by mu
	release    func() error // gives allocated memory back; nil for registered memory; guarded by mu
	err        error        // of the first Close; guarded by mu
}

// CreateMemoryRegion makes a region without memory, for Register. RegisterMemory does both.
//
// Errors: ErrInsufficientResources when the adapter has 65,536 regions that are not closed, ErrDeviceRemoved.
func (a *Adapter) CreateMemoryRegion() (*MemoryRegion, error) {
	return a.newRegion("create memory region")
}

func (a *Adapter) newRegion(op string) (*MemoryRegion, error) {
	if err := a.create(op, verbs.ObjectMR); err != nil {
		return nil, err
	}
	return &MemoryRegion{adapter: a}, nil
}

// RegisterMemory makes a region and registers buf in it. Errors are those of Register.
func (a *Adapter) RegisterMemory(buf []byte, flags MRFlags) (*MemoryRegion, error) {
	m, err := a.newRegion("register memory")
	if err != nil {
		return nil, err
	}
	return m.or(m.Register(buf, flags))
}

// or is the new region, or err when it could not be registered.
func (m *MemoryRegion) or(err error) (*MemoryRegion, error) {
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Register makes buf usable for requests. buf must stay reachable and may not move, which holds for every Go slice; the
// region refers to it until Deregister or Close. The same memory may be registered many times, in regions of its own. Tokens
// and address are new ones every time. It takes some 50 µs, for a look at the mappings of the process; memory is neither touched nor
// pinned.
//
// Errors: ErrAccessViolation for memory that is not mapped, or mapped without a right that flags need: reading always, writing
// for MRAllowLocalWrite and MRAllowRemoteWrite; ErrInvalidParameter for a nil slice or more than MaxRegistrationSize bytes, ErrInvalidParameterN(3) for unknown
// flags, ErrInvalidBufferSize for an empty slice, ErrInvalidDeviceState when the region is registered or closed,
// ErrInsufficientResources when the adapter has no region left, ErrDeviceRemoved.
func (m *MemoryRegion) Register(buf []byte, flags MRFlags) error {
	const op = "register memory"
	if s := m.adapter.registrable(buf == nil, len(buf), flags); s != StatusSuccess {
		return &Error{Op: op, Status: s}
	}
	rights := verbs.Rights(uint32(flags))
	if err := verbs.Accessible(buf, rights); err != nil {
		return &Error{Op: op, Status: ErrAccessViolation, Err: err}
	}
	return m.register(op, buf, rights)
}

// register is Register for memory that is known to be accessible.
func (m *MemoryRegion) register(op string, buf []byte, rights provider.Rights) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.registered || m.closed {
		return &Error{Op: op, Status: ErrInvalidDeviceState}
	}
	r, err := m.adapter.verbs.Memory.Register(buf, rights)
	if err != nil {
		return &Error{Op: op, Status: ErrInsufficientResources}
	}
	m.region.Store(r)
	m.registered = true
	return nil
}

// registrable checks the arguments of a registration of n bytes.
func (a *Adapter) registrable(missing bool, n int, flags MRFlags) Status {
	switch {
	case a.closed():
		return ErrDeviceRemoved
	case flags&^knownMRFlags != 0:
		return ErrInvalidParameterN(3)
	case missing || n < 0 || n > maxRegistration:
		return ErrInvalidParameter
	case n == 0:
		return ErrInvalidBufferSize
	}
	return StatusSuccess
}

// none is what a region without a registration shows.
var none provider.Region

func (m *MemoryRegion) current() *provider.Region {
	if r := m.region.Load(); r != nil {
		return r
	}
	return &none
}

// Bytes returns the memory: that of the last registration.
func (m *MemoryRegion) Bytes() []byte { return m.current().Bytes() }

// Address returns the address of the first byte as peers name it in Read and Write. It is not an address of this process;
// adding an offset below len(Bytes()) gives the address of another byte.
func (m *MemoryRegion) Address() uint64 { return m.current().Base() }

// LocalToken returns the token for SGE. It means something while the region is registered.
func (m *MemoryRegion) LocalToken() Token { return Token(m.current().Token()) }

// RemoteToken returns the token to give to a peer. Whoever has it, on a connection of this adapter, has the region's remote
// rights while the region is registered.
func (m *MemoryRegion) RemoteToken() Token { return Token(m.current().Token()) }

// SGE returns an entry for n bytes from off. It panics as slicing does when they are not inside of Bytes.
func (m *MemoryRegion) SGE(off, n int) SGE {
	r := m.current()
	return SGE{Buffer: r.Bytes()[off : off+n : off+n], Token: Token(r.Token())}
}

// RemoteAccesses counts the packets with which peers read from and wrote into the region.
func (m *MemoryRegion) RemoteAccesses() (reads, writes uint64) { return m.current().RemoteAccesses() }

// Deregister takes the registration back. When it returns nothing touches the memory any more; requests and peers that still
// name it get ErrAccessViolation. The region may be registered again. It works on an adapter that is closed, too.
//
// Errors: ErrInvalidDeviceState when the region is not registered, ErrDeviceBusy while a memory window is bound to it.
func (m *MemoryRegion) Deregister() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := provider.OutcomeInvalidState
	if m.registered {
		m.adapter.verbs.DoAll(func() { o = m.adapter.verbs.Memory.Deregister(m.region.Load()) })
	}
	if o != provider.OutcomeSuccess {
		return &Error{Op: "deregister memory", Status: statusTable[o]}
	}
	return m.deregistered()
}

// deregistered gives the memory back, when it is the adapter's. The caller holds mu.
func (m *MemoryRegion) deregistered() (err error) {
	m.registered = false
	if m.release != nil {
		err = m.adapter.verbs.GiveBack(m.release)
	}
	m.release = nil
	return err
}

// Close deregisters the region for good. Memory windows that are bound to it are no more. Closing twice is harmless.
func (m *MemoryRegion) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.registered {
		m.adapter.verbs.DoAll(func() { m.adapter.verbs.Memory.Release(m.region.Load()) })
		m.err = m.deregistered()
	}
	if !m.closed {
		m.closed = true
		m.adapter.verbs.Objects.Give(verbs.ObjectMR)
	}
	return m.err
}

// AllocateMemory returns a region over n new zeroed bytes, page-aligned. As long as AdapterConfig.ArenaBytes lasts it is memory
// that the device can send from: long Sends and Writes leave it without being copied. Beyond that, and on devices that cannot
// send from it (docs/decisions/20-copy-on-send.md), it is ordinary memory.
// The bytes may not be used after Close.
//
// Errors: as RegisterMemory but ErrAccessViolation, and ErrNoMemory for more than the machine has.
func (a *Adapter) AllocateMemory(n int, flags MRFlags) (*MemoryRegion, error) {
	const op = "allocate memory"
	refuse := func(s Status) (*MemoryRegion, error) { return nil, &Error{Op: op, Status: s} }
	if s := a.registrable(false, n, flags); s != StatusSuccess {
		return refuse(s)
	}
	rights := verbs.Rights(uint32(flags))
	if d := a.verbs.Device; d != nil {
		if buf, id, ok := d.Alloc(n); ok {
			return a.registerLink(op, buf, id, rights)
		}
		if !datapath.FitsMemory(n) {
			return refuse(ErrNoMemory)
		}
	}
	m, err := a.newRegion(op)
	if err != nil {
		return nil, err
	}
	return m.or(m.register(op, pages(n), rights))
}

// registerLink makes a region of memory of the device, which id names there, and gives it back when that fails.
func (a *Adapter) registerLink(op string, buf []byte, id uint64, rights provider.Rights) (*MemoryRegion, error) {
	free := func() error { return a.verbs.Device.Release(id) }
	m, err := a.newRegion(op)
	if err != nil {
		return nil, errors.Join(err, free())
	}
	r, err := a.verbs.Memory.RegisterLink(buf, id, rights)
	if err != nil {
		return nil, errors.Join(&Error{Op: op, Status: ErrInsufficientResources}, m.Close(), free())
	}
	m.registered, m.release = true, free
	m.region.Store(r)
	return m, nil
}

// pages makes ordinary memory. The runtime aligns whole pages to pages.
func pages(n int) []byte {
	const page = 4096
	return make([]byte, n, (n+page-1)&^(page-1))
}
