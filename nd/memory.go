package nd

import (
	"errors"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// MRFlags are the rights of a memory region (ND_MR_FLAG). Reading it locally is always allowed.
type MRFlags uint32

// Rights of a memory region.
const (
	MRAllowLocalWrite  MRFlags = 1 // target of Receive and Read
	MRAllowRemoteRead  MRFlags = 2
	MRAllowRemoteWrite MRFlags = 5 // includes local write
	MRReadSink         MRFlags = 8 // accepted for ND programs; has no effect

	// MRDoNotSecureVM is accepted and has no effect: the protection of registered memory is never locked. It must not change while the
	// region is registered.
	MRDoNotSecureVM MRFlags = 0x80000000
)

// MemoryRegion is memory that requests may use and that peers may be granted access to. It has at most one registration at a time. It may
// be used from any goroutine.
type MemoryRegion struct {
	adapter *Adapter
	mr      verbs.MR
}

// CreateMemoryRegion makes a region without memory, for Register. RegisterMemory does both.
//
// Errors: ErrInsufficientResources if the adapter has 65,536 regions that are not closed, ErrDeviceRemoved.
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

// or returns the new region. If it could not be registered, or closes it and returns err.
func (m *MemoryRegion) or(err error) (*MemoryRegion, error) {
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Register makes buf usable for requests. buf must stay reachable and must not move, which holds for every Go slice. The region refers to
// buf until Deregister or Close. The same memory may be registered in several regions. Each registration has a new token and address.
// Register takes some microseconds, because it checks the mappings of buf, and some 50 µs on kernels before Linux 6.11. It does not pin
// memory, and reads only a few pages of mapped files.
//
// While buf is registered, all of it must stay mapped at its address with its protection. Do not unmap, remap or protect it, and do not
// truncate a file that it is mapped from. If a program does so with a mapping of its own, a request that touches the lost part ends with
// ErrAccessViolation, here and at peers, and the connection ends as with any access violation. If it does so with memory from Go's
// allocator, the process crashes. madvise may drop contents, and requests then see the new contents. A forked child does not share the
// registration.
//
// Requests copy from and to foreign mappings. Packets from Go's memory and from AllocateMemory may leave without a copy.
//
// Errors: ErrAccessViolation for memory that is not mapped, that lacks a protection that flags need (reading always; writing for
// MRAllowLocalWrite and MRAllowRemoteWrite), or that reaches beyond the end of a mapped file. ErrInvalidParameter for a nil slice or more
// than MaxRegistrationSize bytes, ErrInvalidParameterN(3) for unknown flags, ErrInvalidBufferSize for an empty slice. ErrInvalidDeviceState
// if the region is registered or closed, ErrInsufficientResources if the adapter has no region left, ErrDeviceRemoved.
func (m *MemoryRegion) Register(buf []byte, flags MRFlags) error {
	o, cause := m.mr.Register(buf, uint32(flags))
	return m.adapter.fail("register memory", noAddr, noAddr, o, cause)
}

// Bytes returns the memory of the last registration.
func (m *MemoryRegion) Bytes() []byte { return m.mr.Newest().Bytes() }

// Address returns the address of the first byte, which peers use in Read and Write. It is not an address of this process. Adding an offset
// below len(Bytes()) gives the address of another byte.
func (m *MemoryRegion) Address() uint64 { return m.mr.Newest().Base() }

// LocalToken returns the token for SGE. It is valid while the region is registered.
func (m *MemoryRegion) LocalToken() Token { return Token(m.mr.Newest().Token()) }

// RemoteToken returns the token to give to a peer. On a connection of this adapter, a peer that knows the token has the region's remote
// rights while the region is registered.
func (m *MemoryRegion) RemoteToken() Token { return Token(m.mr.Newest().Token()) }

// SGE returns an entry for n bytes from off. Like slicing, it panics if they are not inside Bytes.
func (m *MemoryRegion) SGE(off, n int) SGE {
	r := m.mr.Newest()
	return SGE{Buffer: r.Bytes()[off : off+n : off+n], Token: Token(r.Token())}
}

// RemoteAccesses counts the packets by which peers read from the region and wrote into it.
func (m *MemoryRegion) RemoteAccesses() (reads, writes uint64) { return m.mr.Newest().RemoteAccesses() }

// Deregister ends the registration. When it returns, nothing touches the memory any more; requests and peers that still name it get
// ErrAccessViolation. The region may be registered again. Deregister works on a closed adapter, too.
//
// Errors: ErrInvalidDeviceState if the region is not registered, ErrDeviceBusy while a memory window is bound to it.
func (m *MemoryRegion) Deregister() error {
	o, err := m.mr.Deregister()
	if o != provider.OutcomeSuccess {
		return m.adapter.fail("deregister memory", noAddr, noAddr, o, nil)
	}
	return err
}

// Close deregisters the region for good. Memory windows bound to it become invalid. Closing twice is harmless.
func (m *MemoryRegion) Close() error {
	first, err := m.mr.Close()
	if first {
		m.adapter.verbs.Objects.Give(verbs.ObjectMR)
	}
	return err
}

// AllocateMemory returns a region over n new zeroed bytes, page-aligned. While AdapterConfig.ArenaBytes lasts, the device can send from
// this memory: long Sends and Writes leave it without a copy. Beyond that, and on devices that cannot send from it
// (docs/decisions/08-copy-and-lend.md), it is ordinary memory. The bytes must not be used after Close.
//
// Errors: those of RegisterMemory except ErrAccessViolation, and ErrNoMemory for more than the machine has.
func (a *Adapter) AllocateMemory(n int, flags MRFlags) (*MemoryRegion, error) {
	const op = "allocate memory"
	m, err := a.newRegion(op)
	if err != nil {
		return nil, err
	}
	o, cause := m.mr.Allocate(n, uint32(flags))
	return m.or(a.fail(op, noAddr, noAddr, o, cause))
}
