package ndk

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// MRFlags are the rights of a memory region (NDK_MR_FLAG). Reading it locally is always allowed.
type MRFlags uint32

// Rights of a memory region.
const (
	MRAllowLocalRead   MRFlags = 0
	MRAllowLocalWrite  MRFlags = 1 // target of Receive and Read
	MRAllowRemoteRead  MRFlags = 2
	MRAllowRemoteWrite MRFlags = 5 // includes local write
	MRRDMAReadSink     MRFlags = 8 // accepted for NDK programs; has no effect

	// MRDoNotSecureVM is package nd's flag, accepted here because the memory belongs to a process. It has no effect: the protection of
	// registered memory is never locked. It must not change while the region is registered.
	MRDoNotSecureVM MRFlags = 0x80000000
)

// MR is memory that requests may use and that peers may be granted access to. It has at most one registration at a time. For a region for
// fast registration, the newest posted FastRegister counts as its registration.
type MR struct {
	object
	pd *PD
	mr verbs.MR

	fastRegion *provider.MemoryWindow // fixed; nil unless the region is for fast registration
	fast       atomic.Pointer[fastMR] // nil until InitializeFastRegister
}

var none provider.Region

// current returns the registration, or an empty one.
func (m *MR) current() *provider.Region {
	if m.mr.Registered() {
		return m.mr.Newest()
	}
	return &none
}

// CreateMR makes a region without memory. It is for QP.FastRegister if fast is true, and otherwise for Register.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInsufficientResources, StatusDeviceRemoved.
func (p *PD) CreateMR(fast bool, done CreateCompletion[*MR], context any) (*MR, Status) {
	return create(&p.object, verbs.ObjectMR, done, context, func() (*MR, Status) {
		m := &MR{pd: p}
		m.mr.Init(p.adapter.verbs, &p.domain)
		if fast {
			var err error
			if m.fastRegion, err = p.adapter.verbs.Memory.NewFastRegion(); err != nil {
				return nil, StatusInsufficientResources
			}
		}
		m.init(p.adapter, verbs.ObjectMR, &p.object)
		return m, StatusSuccess
	})
}

// Register makes buf usable for requests. buf must stay reachable and must not move, which holds for every Go slice. The region refers to
// buf until Deregister or Close. Each registration has a new token and address. It takes some microseconds, because it checks the mappings of
// buf, and some 50 µs on kernels before Linux 6.11. It does not pin the memory, and reads only a few pages of mapped files.
//
// While buf is registered, all of it must stay mapped at its address with its protection. Do not unmap, remap or protect it, and do not
// truncate a file that it is mapped from. If a program does so with a mapping of its own, a request that touches the lost memory ends with
// StatusAccessViolation, and a peer's Read with StatusRemoteResources. The connection ends as with any access violation. If a program does
// so with memory from Go's allocator, the process crashes. madvise may drop contents, and requests then see the new contents. A forked
// child does not share the registration. Requests copy from and to foreign mappings; packets from Go's memory may leave without a copy.
//
// Statuses: StatusSuccess; StatusPending with a done. StatusAccessViolation for memory that is not mapped, or that reaches beyond the end
// of a mapped file. StatusAccessViolation also for memory without a protection that flags need: reading always, writing for
// MRAllowLocalWrite and MRAllowRemoteWrite. StatusInvalidParameter for an empty slice, a slice longer than MaxRegistrationSize, unknown
// flags and a region for fast registration. StatusInvalidDeviceState if the region is registered; StatusInsufficientResources if the
// adapter has no region left, StatusDeviceRemoved.
func (m *MR) Register(buf []byte, flags MRFlags, done Completion, context any) Status {
	o := m.adapter.verbs.CheckRegister(buf == nil, len(buf), uint32(flags))
	switch {
	case o == provider.OutcomeSuccess && m.fastRegion != nil:
		o = verbs.OutcomeWrongArgument
	case o == provider.OutcomeSuccess && m.mr.Registered():
		o = provider.OutcomeInvalidState
	}
	if o != provider.OutcomeSuccess {
		return statusTable[o]
	}
	return m.perform(done, context, func() Status {
		if m.ending() {
			return m.adapter.unless(StatusInvalidDeviceState)
		}
		o, _ := m.mr.Register(buf, uint32(flags))
		return statusTable[o]
	})
}

// Deregister ends the registration. When it has finished, nothing touches the memory any more. Requests and peers that still name it get
// StatusAccessViolation, a peer's Read StatusRemoteResources. The region may be registered again.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidDeviceState if the region is not registered, StatusDeviceBusy while a
// memory window is bound to it, StatusDeviceRemoved.
func (m *MR) Deregister(done Completion, context any) Status {
	switch {
	case m.adapter.verbs.Closed():
		return StatusDeviceRemoved
	case !m.mr.Registered():
		return StatusInvalidDeviceState
	case m.mr.Windows() > 0:
		return StatusDeviceBusy
	}
	return m.perform(done, context, func() Status {
		o, _ := m.mr.Deregister() // no memory of the device to return here
		return statusTable[o]
	})
}

// Bytes returns the registered memory.
func (m *MR) Bytes() []byte {
	b, _ := m.memory()
	return b
}

// memory returns the registered memory and the address of its first byte.
func (m *MR) memory() ([]byte, uint64) {
	if m.fastRegion != nil {
		return m.fastRegion.Aim()
	}
	r := m.current()
	return r.Bytes(), r.Base()
}

// Address returns the address of the first byte, which peers use in Read and Write. It is not an address of this process. Adding an offset
// gives the address of another byte.
func (m *MR) Address() uint64 {
	_, base := m.memory()
	return base
}

// LocalToken returns the token for SGE, or zero without a registration. A region for fast registration has a token once it is initialized,
// and a new token with each FastRegister.
func (m *MR) LocalToken() Token {
	if m.fast.Load() != nil {
		return Token(m.fastRegion.Token())
	}
	return Token(m.current().Token())
}

// RemoteToken returns the token to give to a peer, or zero without a registration.
func (m *MR) RemoteToken() Token {
	if m.Bytes() == nil {
		return 0
	}
	return m.LocalToken()
}

// SGE returns an entry for n bytes from off. Like slicing, it panics if they are not inside Bytes.
func (m *MR) SGE(off, n int) SGE {
	return SGE{Buffer: m.Bytes()[off : off+n : off+n], Token: m.LocalToken()}
}

// Close deregisters the region as soon as no memory window is bound to it; a fast registration ends at once. It never fails. done, which
// may be nil, is called if and only if Close returns StatusPending.
func (m *MR) Close(done CloseCompletion, context any) Status {
	if m.fastRegion != nil {
		return m.close(func() {
			m.adapter.verbs.DoAll(func() { m.adapter.verbs.Memory.ReleaseWindow(m.fastRegion) })
		}, done, context)
	}
	return m.close(func() {
		release := func() {
			_, _ = m.mr.Close() // no memory of the device to return here
			m.drop()
		}
		m.hold()
		if !m.mr.WhenUnbound(func(provider.Outcome) { m.adapter.calls.push(release) }) {
			release()
		}
	}, done, context)
}

// MW is a memory window: it grants the peer of one queue pair access to a part of a region while it is bound.
type MW struct {
	object
	pd     *PD
	window *provider.MemoryWindow
}

// CreateMW makes an unbound window.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInsufficientResources, StatusDeviceRemoved.
func (p *PD) CreateMW(done CreateCompletion[*MW], context any) (*MW, Status) {
	return create(&p.object, verbs.ObjectMW, done, context, func() (*MW, Status) {
		window, err := p.adapter.verbs.Memory.NewWindow()
		if err != nil {
			return nil, StatusInsufficientResources
		}
		w := &MW{pd: p, window: window}
		w.init(p.adapter, verbs.ObjectMW, &p.object)
		return w, StatusSuccess
	})
}

// RemoteToken returns the token to give to the peer. Each Bind makes a new token; it is zero before the first Bind.
func (w *MW) RemoteToken() Token { return Token(w.window.Token()) }

// Close ends the window, bound or not: when it returns, no peer can access memory through it. It never fails. done, which may be nil, is
// called if and only if Close returns StatusPending.
func (w *MW) Close(done CloseCompletion, context any) Status {
	return w.close(func() {
		w.adapter.verbs.DoAll(func() { w.adapter.verbs.Memory.ReleaseWindow(w.window) })
	}, done, context)
}
