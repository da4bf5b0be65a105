package nd

import (
	"errors"

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

// MemoryRegion is memory that requests may use and peers may be granted access to. It has at most one registration at a
// time. It may be used from any goroutine.
type MemoryRegion struct {
	adapter *Adapter
	mr      verbs.MR
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
	m := &MemoryRegion{adapter: a}
	m.mr.Init(a.verbs, nil)
	return m, nil
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
// and address are new ones every time. It takes some 50 µs, for a look at the mappings of the process; memory is not pinned, and touched only in a few pages of mapped files, which are read.
//
// As long as buf is registered, all of it must stay mapped with the rights it has, at its address: do not unmap, remap or protect it, and do not truncate a file that it is mapped from.
// If a program does so with memory that is not Go's, such as a mapping, a request that touches what is lost ends with ErrAccessViolation, here and for peers, and the connection ends as with any
// other access violation. Memory from Go's allocator that is protected or unmapped ends the process. madvise may drop contents, which requests then see. A child of a fork
// shares nothing of the registration. Requests copy from and to such mappings; packets from Go's memory and from AllocateMemory may leave without a copy.
//
// Errors: ErrAccessViolation for memory that is not mapped, or mapped without a right that flags need: reading always, writing
// for MRAllowLocalWrite and MRAllowRemoteWrite; and for a mapping that reaches behind the end of its file; ErrInvalidParameter for a nil slice or more than MaxRegistrationSize bytes, ErrInvalidParameterN(3) for unknown
// flags, ErrInvalidBufferSize for an empty slice, ErrInvalidDeviceState when the region is registered or closed,
// ErrInsufficientResources when the adapter has no region left, ErrDeviceRemoved.
func (m *MemoryRegion) Register(buf []byte, flags MRFlags) error {
	o, cause := m.mr.Register(buf, uint32(flags))
	return m.adapter.fail("register memory", noAddr, noAddr, o, cause)
}

// Bytes returns the memory: that of the last registration.
func (m *MemoryRegion) Bytes() []byte { return m.mr.Newest().Bytes() }

// Address returns the address of the first byte as peers name it in Read and Write. It is not an address of this process;
// adding an offset below len(Bytes()) gives the address of another byte.
func (m *MemoryRegion) Address() uint64 { return m.mr.Newest().Base() }

// LocalToken returns the token for SGE. It means something while the region is registered.
func (m *MemoryRegion) LocalToken() Token { return Token(m.mr.Newest().Token()) }

// RemoteToken returns the token to give to a peer. Whoever has it, on a connection of this adapter, has the region's remote
// rights while the region is registered.
func (m *MemoryRegion) RemoteToken() Token { return Token(m.mr.Newest().Token()) }

// SGE returns an entry for n bytes from off. It panics as slicing does when they are not inside of Bytes.
func (m *MemoryRegion) SGE(off, n int) SGE {
	r := m.mr.Newest()
	return SGE{Buffer: r.Bytes()[off : off+n : off+n], Token: Token(r.Token())}
}

// RemoteAccesses counts the packets with which peers read from and wrote into the region.
func (m *MemoryRegion) RemoteAccesses() (reads, writes uint64) { return m.mr.Newest().RemoteAccesses() }

// Deregister takes the registration back. When it returns nothing touches the memory any more; requests and peers that still
// name it get ErrAccessViolation. The region may be registered again. It works on an adapter that is closed, too.
//
// Errors: ErrInvalidDeviceState when the region is not registered, ErrDeviceBusy while a memory window is bound to it.
func (m *MemoryRegion) Deregister() error {
	o, err := m.mr.Deregister()
	if o != provider.OutcomeSuccess {
		return m.adapter.fail("deregister memory", noAddr, noAddr, o, nil)
	}
	return err
}

// Close deregisters the region for good. Memory windows that are bound to it are no more. Closing twice is harmless.
func (m *MemoryRegion) Close() error {
	first, err := m.mr.Close()
	if first {
		m.adapter.verbs.Objects.Give(verbs.ObjectMR)
	}
	return err
}

// AllocateMemory returns a region over n new zeroed bytes, page-aligned. As long as AdapterConfig.ArenaBytes lasts it is memory
// that the device can send from: long Sends and Writes leave it without being copied. Beyond that, and on devices that cannot
// send from it (docs/decisions/08-copy-and-lend.md), it is ordinary memory.
// The bytes may not be used after Close.
//
// Errors: as RegisterMemory but ErrAccessViolation, and ErrNoMemory for more than the machine has.
func (a *Adapter) AllocateMemory(n int, flags MRFlags) (*MemoryRegion, error) {
	const op = "allocate memory"
	m, err := a.newRegion(op)
	if err != nil {
		return nil, err
	}
	o, cause := m.mr.Allocate(n, uint32(flags))
	return m.or(a.fail(op, noAddr, noAddr, o, cause))
}
