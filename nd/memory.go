package nd

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath"
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
)

const knownMRFlags = MRAllowLocalWrite | MRAllowRemoteRead | MRAllowRemoteWrite | MRReadSink

// MemoryRegion is memory that requests may use and peers may be granted access to. It may be used from any goroutine.
type MemoryRegion struct {
	adapter *Adapter
	region  *provider.Region
	release func() error // gives allocated memory back; nil for registered memory
	once    sync.Once
	err     error
}

// RegisterMemory makes buf usable for requests. buf must stay reachable and may not move, which holds for every Go
// slice; the region refers to it until Close. The same memory may be registered many times.
//
// Errors: ErrInvalidParameter for a nil slice, unknown flags or more than MaxRegistrationSize bytes, ErrInvalidBufferSize for
// an empty one, ErrInsufficientResources when the adapter has no region left, ErrDeviceRemoved.
func (a *Adapter) RegisterMemory(buf []byte, flags MRFlags) (*MemoryRegion, error) {
	refuse := func(s Status) (*MemoryRegion, error) { return nil, &Error{Op: "register memory", Status: s} }
	switch {
	case a.closed():
		return refuse(ErrDeviceRemoved)
	case buf == nil || len(buf) > maxRegistration || flags&^knownMRFlags != 0:
		return refuse(ErrInvalidParameter)
	case len(buf) == 0:
		return refuse(ErrInvalidBufferSize)
	}
	r, err := a.memory.Register(buf, flags.rights())
	if err != nil {
		return refuse(ErrInsufficientResources)
	}
	return &MemoryRegion{adapter: a, region: r}, nil
}

func (f MRFlags) rights() (r provider.Rights) {
	if f&MRAllowLocalWrite != 0 {
		r |= provider.RightLocalWrite
	}
	if f&MRAllowRemoteRead != 0 {
		r |= provider.RightRemoteRead
	}
	if f&(MRAllowRemoteWrite&^MRAllowLocalWrite) != 0 {
		r |= provider.RightRemoteWrite
	}
	return r
}

// Bytes returns the memory.
func (m *MemoryRegion) Bytes() []byte { return m.region.Bytes() }

// Address returns the address of the first byte as peers name it in Read and Write. It is not an address of this process;
// adding an offset below len(Bytes()) gives the address of another byte.
func (m *MemoryRegion) Address() uint64 { return m.region.Base() }

// LocalToken returns the token for SGE.
func (m *MemoryRegion) LocalToken() Token { return Token(m.region.Token()) }

// RemoteToken returns the token to give to a peer. Whoever has it, on a connection of this adapter, has the region's remote
// rights.
func (m *MemoryRegion) RemoteToken() Token { return Token(m.region.Token()) }

// SGE returns an entry for n bytes from off.
func (m *MemoryRegion) SGE(off, n int) SGE {
	return SGE{Buffer: m.region.Bytes()[off : off+n : off+n], Token: m.LocalToken()}
}

// RemoteAccesses counts the packets with which peers read from and wrote into the region.
func (m *MemoryRegion) RemoteAccesses() (reads, writes uint64) { return m.region.RemoteAccesses() }

// Close deregisters the region. When it returns nothing touches the memory any more; requests and peers that still name
// it get ErrAccessViolation. Closing twice is harmless.
func (m *MemoryRegion) Close() error {
	m.once.Do(func() {
		m.adapter.do(func(*provider.Engine) { m.adapter.memory.Deregister(m.region) })
		switch {
		case m.release == nil:
		case m.settle():
			m.err = m.release()
		default:
			m.adapter.keep(m.release)
		}
	})
	return m.err
}

// settleTries bounds the wait, in milliseconds, for packets that refer to allocated memory to be sent. What the kernel has
// not taken by then is on a device that does not send, because it is down; such memory is not used again before the adapter
// closes.
const settleTries = 100

// settle waits until no packet that waits to be sent refers to the region. Its owner has ended the requests that use it, but
// a copy that was sent again may still wait.
func (m *MemoryRegion) settle() bool {
	for range settleTries {
		settled := true
		m.adapter.do(func(*provider.Engine) {
			// A closed adapter sends nothing, and its device may be gone.
			if !m.adapter.closed() {
				settled = m.adapter.dp.Settled()
			}
		})
		if settled {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// AllocateMemory returns a region over n new zeroed bytes, page-aligned. As long as AdapterConfig.ArenaBytes lasts it is memory
// that the device can send from: long Sends and Writes leave it without being copied. Beyond that it is ordinary memory.
// The bytes may not be used after Close.
//
// Errors: as RegisterMemory, and ErrNoMemory for more than the machine has.
func (a *Adapter) AllocateMemory(n int, flags MRFlags) (*MemoryRegion, error) {
	refuse := func(s Status) (*MemoryRegion, error) { return nil, &Error{Op: "allocate memory", Status: s} }
	switch {
	case a.closed():
		return refuse(ErrDeviceRemoved)
	case n < 0 || n > maxRegistration || flags&^knownMRFlags != 0:
		return refuse(ErrInvalidParameter)
	case n == 0:
		return refuse(ErrInvalidBufferSize)
	}
	if a.dp == nil {
		return a.RegisterMemory(pages(n), flags)
	}
	buf, id, ok := a.dp.Alloc(n)
	if !ok {
		if !datapath.FitsMemory(n) {
			return refuse(ErrNoMemory)
		}
		return a.RegisterMemory(pages(n), flags)
	}
	r, err := a.memory.RegisterLink(buf, id, flags.rights())
	if err != nil {
		return nil, errors.Join(&Error{Op: "allocate memory", Status: ErrInsufficientResources}, a.dp.Release(id))
	}
	return &MemoryRegion{adapter: a, region: r, release: func() error { return a.dp.Release(id) }}, nil
}

// pages makes ordinary memory. The runtime aligns whole pages to pages.
func pages(n int) []byte {
	const page = 4096
	return make([]byte, n, (n+page-1)&^(page-1))
}

var noAddr netip.AddrPort
