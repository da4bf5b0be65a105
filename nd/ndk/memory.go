package ndk

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// MRFlags are the rights of a memory region (NDK_MR_FLAG). Reading it locally is always allowed.
type MRFlags uint32

// The rights.
const (
	MRAllowLocalRead   MRFlags = 0
	MRAllowLocalWrite  MRFlags = 1 // target of Receive and Read
	MRAllowRemoteRead  MRFlags = 2
	MRAllowRemoteWrite MRFlags = 5 // includes local write
	MRRDMAReadSink     MRFlags = 8 // accepted, and not needed

	// MRDoNotSecureVM is package nd's, and accepted here too because the memory is a process's. It changes nothing: the protection of
	// registered memory is never locked. It must stay what it was while the region is registered.
	MRDoNotSecureVM MRFlags = 0x80000000
)

// MR is memory that requests may use and peers may be granted access to. It has at most one registration at a time. For
// a region for fast registration, the newest FastRegister that was posted counts as its registration.
type MR struct {
	object
	pd *PD
	mr verbs.MR

	fastRegion *provider.MemoryWindow // fixed; nil unless it is for fast registration
	fast       atomic.Pointer[fastMR] // nil until InitializeFastRegister
}

var none provider.Region

// current is the registration, an empty one without any.
func (m *MR) current() *provider.Region {
	if m.mr.Registered() {
		return m.mr.Newest()
	}
	return &none
}

// CreateMR makes a region without memory: for Register or, if fast says so, for QP.FastRegister; never for both.
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

// Register makes buf usable for requests. buf must stay reachable and may not move, which holds for every Go slice; the region
// refers to it until Deregister or Close. Tokens and address are new ones every time. It takes some 50 µs, for a look at the
// mappings of the process; memory is neither touched nor pinned.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusAccessViolation for memory that is not mapped, or mapped without a right that
// flags need: reading always, writing for MRAllowLocalWrite and MRAllowRemoteWrite; StatusInvalidParameter for an empty slice, one longer than
// MaxRegistrationSize, unknown flags and a region for fast registration; StatusInvalidDeviceState for a region that is registered; StatusInsufficientResources when the
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

// Deregister takes the registration back. When it has finished nothing touches the memory any more; requests and peers that still
// name it get StatusAccessViolation, a peer's Read StatusRemoteResources. The region may be registered again.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusInvalidDeviceState for a region that is not registered,
// StatusDeviceBusy while a memory window is bound to it, StatusDeviceRemoved.
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
		o, _ := m.mr.Deregister() // the device has no memory to give back here
		return statusTable[o]
	})
}

// Bytes returns the registered memory.
func (m *MR) Bytes() []byte {
	b, _ := m.memory()
	return b
}

// memory is the registered memory, and the address of its first byte.
func (m *MR) memory() ([]byte, uint64) {
	if m.fastRegion != nil {
		return m.fastRegion.Aim()
	}
	r := m.current()
	return r.Bytes(), r.Base()
}

// Address returns the address of the first byte as peers name it in Read and Write. It is not an address of this process; adding
// an offset gives the address of another byte.
func (m *MR) Address() uint64 {
	_, base := m.memory()
	return base
}

// LocalToken returns the token for SGE, zero without a registration. A region for fast registration has one once it is
// initialised, and a new one with each FastRegister.
func (m *MR) LocalToken() Token {
	if m.fast.Load() != nil {
		return Token(m.fastRegion.Token())
	}
	return Token(m.current().Token())
}

// RemoteToken returns the token to give to a peer, zero without a registration.
func (m *MR) RemoteToken() Token {
	if m.Bytes() == nil {
		return 0
	}
	return m.LocalToken()
}

// SGE returns an entry for n bytes from off. It panics as slicing does when they are not inside of Bytes.
func (m *MR) SGE(off, n int) SGE {
	return SGE{Buffer: m.Bytes()[off : off+n : off+n], Token: m.LocalToken()}
}

// Close deregisters the region as soon as no memory window is bound to it; a fast registration ends at once. It never fails; done, which may be nil, is called
// iff it returns StatusPending.
func (m *MR) Close(done CloseCompletion, context any) Status {
	if m.fastRegion != nil {
		return m.close(func() {
			m.adapter.verbs.DoAll(func() { m.adapter.verbs.Memory.ReleaseWindow(m.fastRegion) })
		}, done, context)
	}
	return m.close(func() {
		release := func() {
			_, _ = m.mr.Close() // the device has no memory to give back here
			m.drop()
		}
		m.hold()
		if !m.mr.WhenUnbound(func(provider.Outcome) { m.adapter.calls.push(release) }) {
			release()
		}
	}, done, context)
}

// MW is a memory window: it grants the peer of one queue pair access to a part of a region for as long as it is bound.
type MW struct {
	object
	pd     *PD
	window *provider.MemoryWindow
}

// CreateMW makes a window that is bound to nothing.
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

// RemoteToken returns the token to give to the peer: that of the newest Bind, zero before the first.
func (w *MW) RemoteToken() Token { return Token(w.window.Token()) }

// Close ends the window, bound or not: when it returns no peer gets at memory through it. It never fails; done, which may be
// nil, is called iff it returns StatusPending.
func (w *MW) Close(done CloseCompletion, context any) Status {
	return w.close(func() {
		w.adapter.verbs.DoAll(func() { w.adapter.verbs.Memory.ReleaseWindow(w.window) })
	}, done, context)
}
