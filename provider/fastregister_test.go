package provider

import (
	"math"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/memory"
)

// fastBase is the address that the peer uses for the first byte of a fast registration in these tests.
const fastBase = 0x7000

const allFast = FlagAllowRead | FlagAllowWrite

func (p *pair) fastRegion() *MemoryWindow {
	p.tb.Helper()
	w, err := p.mem[1].NewFastRegion()
	if err != nil {
		p.tb.Fatal(err)
	}
	return w
}

// fast posts the fast registration of n bytes at offset off of side 1's region.
func (p *pair) fast(w *MemoryWindow, off, n uint64, flags PostFlags) Outcome {
	r := p.reg[1]
	_, o := p.qp[1].FastRegister(&BindRequest{Window: w, Region: r, Addr: r.Base() + off, Length: n, Flags: flags}, fastBase)
	return o
}

// fastGrant registers the first 4096 bytes of side 1's region and waits until the registration completes.
func (p *pair) fastGrant(flags PostFlags) *MemoryWindow {
	p.tb.Helper()
	w := p.fastRegion()
	p.must(p.fast(w, 0, 4096, flags))
	p.runUntilIdle()
	if r := p.outcomes(1, OutcomeSuccess)[0]; r.Kind != KindFastRegister {
		p.tb.Fatalf("%+v", r)
	}
	return w
}

// at is a request of side 0 for the first n bytes of a fast registration.
func (p *pair) at(w *MemoryWindow, kind RequestKind, n uint32) *listed {
	r := p.write(0, 0, n)
	r.Kind, r.Addr, r.Token = kind, fastBase, w.Token()
	return r
}

func TestFastRegisterGivesPeersTheMemory(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.fastRegion()
	first := w.Token()
	p.must(p.fast(w, 8192, 4096, allFast))
	if first == 0 || w.Token() == first || w.Bound() {
		t.Fatal("the new token is there when the call returns, and the registration when its turn came")
	}
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess)
	p.fill(0, 0, 4096, 7)
	p.post(0, p.at(w, KindWrite, 4096))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.fill(0, 0, 4096, 1)
	p.post(0, p.at(w, KindRead, 4096))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	if !p.all(1, 8192, 4096, 7) || !p.all(0, 0, 4096, 7) || !p.all(1, 0, 8192, 0) {
		t.Error("bytes are elsewhere")
	}
}

// A forbidden access by the peer ends the connection and touches no memory.
func TestFastRegisterRefusesPeers(t *testing.T) {
	for name, c := range map[string]struct {
		flags  PostFlags
		change func(p *pair, w *MemoryWindow, r *listed)
	}{
		"no rights":   {FlagLocalWrite, func(*pair, *MemoryWindow, *listed) {}},
		"read only":   {FlagAllowRead, func(*pair, *MemoryWindow, *listed) {}},
		"before":      {allFast, func(_ *pair, _ *MemoryWindow, r *listed) { r.Addr-- }},
		"behind":      {allFast, func(_ *pair, _ *MemoryWindow, r *listed) { r.Addr = fastBase + 4096 - 99 }},
		"wraps":       {allFast, func(_ *pair, _ *MemoryWindow, r *listed) { r.Addr = math.MaxUint64 - 50 }},
		"by region":   {allFast, func(p *pair, _ *MemoryWindow, r *listed) { r.Addr = p.reg[1].Base() }},
		"old token":   {allFast, func(p *pair, w *MemoryWindow, _ *listed) { p.refast(w) }},
		"never given": {allFast, func(p *pair, _ *MemoryWindow, r *listed) { r.Token = p.fastRegion().Token() }},
		"invalidated": {allFast, func(p *pair, w *MemoryWindow, _ *listed) {
			p.invalidate(w)
			p.runUntilIdle()
			p.outcomes(1, OutcomeSuccess)
		}},
		"other queue pair": {allFast, func(p *pair, _ *MemoryWindow, r *listed) {
			w := p.fastRegion()
			other := p.eng[1].NewQP(QPConfig{ReceiveCQ: p.cq[1], InitiatorCQ: p.cq[1]})
			r.Token = p.bindTo(other, w, fastBase)
		}},
		"not carried out": {allFast, func(p *pair, _ *MemoryWindow, r *listed) {
			p.qp[1].rung.Store(true) // the engine ignores the doorbell
			w := p.fastRegion()
			p.must(p.fast(w, 0, 4096, allFast|FlagSilentSuccess))
			r.Token = w.Token()
		}},
	} {
		p := newPair(t, 1408).connect()
		w := p.fastGrant(c.flags)
		r := p.at(w, KindWrite, 100)
		c.change(p, w, r)
		p.fill(0, 0, 100, 1)
		p.post(0, r)
		p.runUntilIdle()
		if rs := p.results(0); len(rs) != 1 || rs[0].Outcome != OutcomeAccessViolation || p.ctr[1].State() != CtrLost || !p.all(1, 0, 8192, 0) {
			t.Errorf("%s: %+v, %v", name, rs, p.ctr[1].State())
		}
	}
}

// refast invalidates a fast registration of side 1 and makes it again.
func (p *pair) refast(w *MemoryWindow) {
	p.tb.Helper()
	old := w.Token()
	p.invalidate(w)
	p.must(p.fast(w, 0, 4096, allFast))
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess, OutcomeSuccess)
	if w.Token() == old {
		p.tb.Error("the token is the one before")
	}
}

func TestFastRegisterOfARegisteredRegionEndsTheConnection(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.fastGrant(allFast)
	p.must(p.fast(w, 0, 64, allFast))
	p.post(1, p.write(1, 0, 10))
	p.runUntilIdle()
	if rs := p.outcomes(1, OutcomeInvalidRequest, OutcomeCanceled); rs[0].Kind != KindFastRegister || w.Bound() || p.ctr[0].State() != CtrLost {
		t.Errorf("%+v, %v", rs, p.ctr[0].State())
	}
	p.must(p.mem[1].Deregister(p.reg[1])) // fails while a registration uses the memory
}

func TestFastRegisterIsRefusedAtOnce(t *testing.T) {
	p := newPair(t, 1408).connect()
	w, r := p.fastRegion(), p.reg[1]
	token := w.Token()
	for name, c := range map[string]struct{ addr, n, base uint64 }{
		"behind the region": {r.Base(), 4<<20 + 1, 0},
		"before it":         {r.Base() - 1, 1, 0},
		"base wraps":        {r.Base(), 4096, math.MaxUint64 - 4094},
	} {
		_, o := p.qp[1].FastRegister(&BindRequest{Window: w, Region: r, Addr: c.addr, Length: c.n}, c.base)
		if buf, _ := w.Aim(); o != OutcomeAccessViolation || w.Token() != token || buf != nil {
			t.Errorf("%s: %v", name, o)
		}
	}
	readOnly, err := p.mem[1].Register(make([]byte, 4096), RightRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[PostFlags]Outcome{
		FlagLocalWrite: OutcomeAccessViolation, FlagAllowWrite: OutcomeAccessViolation, FlagLocalWrite | FlagAllowRead: OutcomeAccessViolation,
	} {
		_, o := p.qp[1].FastRegister(&BindRequest{Window: w, Region: readOnly, Addr: readOnly.Base(), Length: 64, Flags: flags}, fastBase)
		if buf, _ := w.Aim(); o != want || w.Token() != token || buf != nil {
			t.Errorf("flags %x of memory that may not be written: %v", flags, o)
		}
	}
	idle := p.eng[1].NewQP(QPConfig{ReceiveCQ: p.cq[1], InitiatorCQ: p.cq[1], InitiatorDepth: 4})
	if _, o := idle.FastRegister(&BindRequest{Window: w, Region: r, Addr: r.Base(), Length: 1}, 0); o != OutcomeConnectionInvalid {
		t.Error(o)
	}
	for range 256 {
		p.post(1, p.send(1, 10)) // blocked: the peer has posted no receive
	}
	if o := p.fast(w, 0, 1, 0); o != OutcomeNoMoreEntries || w.Token() != token {
		t.Error(o)
	}
}

// mine makes a request of side 1 use the first n bytes of a fast registration as its local memory.
func mine(r *listed, w *MemoryWindow, n uint32) *listed {
	r.SGL = []SGE{{Addr: fastBase, Len: n, Token: w.Token()}}
	r.Length = n
	return r
}

// Requests may use a region that an earlier request of the queue registers. A later invalidation waits until they are done, because
// retransmissions are built from the region.
func TestFastRegisterServesRequestsBehindIt(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.fastRegion()
	lost := 0
	p.link[1].mangle = func([]byte) bool { lost++; return lost != 2 }
	p.fill(1, 0, 5000, 9)
	p.must(p.fast(w, 0, 5000, FlagLocalWrite))
	if buf, base := p.mem[1].Posted(w.Token()); len(buf) != 5000 || base != fastBase {
		t.Fatalf("%d bytes at %#x", len(buf), base)
	}
	p.post(1, mine(p.write(1, 0, 5000), w, 5000))
	p.invalidate(w)
	p.pass(100 * time.Millisecond)
	rs := p.outcomes(1, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
	if rs[2].Kind != KindInvalidate || w.Bound() || lost < 2 || !p.all(0, 0, 5000, 9) {
		t.Errorf("%+v, %d packets", rs, lost)
	}
	p.post(1, mine(p.write(1, 0, 100), w, 100))
	p.runUntilIdle()
	p.outcomes(1, OutcomeAccessViolation)
}

// A Read completes before the region that it fills is invalidated, with and without the fence. A Read into a region without local
// write is refused.
func TestFastRegisterForReads(t *testing.T) {
	for _, fence := range []PostFlags{0, FlagReadFence} {
		p := newPair(t, 1408).connect()
		w := p.fastRegion()
		p.fill(0, 0, 50000, 3)
		p.must(p.fast(w, 0, 50000, FlagLocalWrite))
		r := mine(p.write(1, 0, 50000), w, 50000)
		r.Kind = KindRead
		p.post(1, r)
		_, o := p.qp[1].Invalidate(0, w, fence)
		p.must(o)
		p.runUntilIdle()
		p.outcomes(1, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
		if !p.all(1, 0, 50000, 3) {
			t.Error("the Read brought other bytes")
		}
		p.must(p.fast(w, 0, 50000, FlagAllowRead))
		r.SGL[0].Token = w.Token()
		p.post(1, r)
		p.runUntilIdle()
		p.outcomes(1, OutcomeSuccess, OutcomeAccessViolation)
	}
}

func TestSendInvalidatesAFastRegion(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.fastGrant(allFast)
	p.receive(1, 8192, 10)
	p.runUntilIdle()
	s := p.send(0, 10)
	s.Flags, s.Token = FlagInvalidate, w.Token()
	p.post(0, s)
	p.runUntilIdle()
	if r := p.outcomes(1, OutcomeSuccess)[0]; r.Invalidated != w.Token() || w.Bound() {
		t.Errorf("%+v", r)
	}
	p.invalidate(w) // the window is used too late
	p.runUntilIdle()
	p.outcomes(1, OutcomeInvalidRequest)
}

// A fast registration ends with its queue pair, with its region and with the memory of the region.
func TestFastRegistrationEnds(t *testing.T) {
	for name, end := range map[string]func(p *pair, w *MemoryWindow){
		"flush":  func(p *pair, _ *MemoryWindow) { p.qp[1].Flush() },
		"region": func(p *pair, w *MemoryWindow) { p.mem[1].ReleaseWindow(w) },
		"memory": func(p *pair, _ *MemoryWindow) { p.mem[1].Release(p.reg[1]) },
	} {
		p := newPair(t, 1408).connect()
		w := p.fastGrant(allFast)
		if o := p.mem[1].Deregister(p.reg[1]); o != OutcomeDeviceBusy {
			t.Errorf("%s: %v", name, o)
		}
		end(p, w)
		if w.Bound() || p.mem[1].Windows(p.reg[1]) != 0 {
			t.Errorf("%s: it lasts", name)
		}
	}
}

func TestAllocFastRegister(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var rs [64]Result
	p := newPair(t, 1408).connect()
	w, r := p.fastRegion(), p.write(0, 0, 64)
	r.Addr = fastBase
	allocates(t, p, func() {
		_ = p.fast(w, 0, 4096, allFast)
		p.runUntilIdle()
		r.Token = w.Token()
		p.post(0, r)
		p.runUntilIdle()
		p.invalidate(w)
		p.runUntilIdle()
		if p.drain(rs[:]) != 3 {
			t.Fatal("something failed")
		}
	})
}

// The token of a fast registration is invalid for requests of another queue pair.
func TestFastRegistrationIsOfOneQueuePair(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.fastGrant(allFast)
	token := w.Token()
	owner := p.qp[1]
	for side := range p.qp {
		p.qp[side] = p.eng[side].NewQP(QPConfig{
			ReceiveCQ: p.cq[side], InitiatorCQ: p.cq[side], ReceiveDepth: 4, InitiatorDepth: 4, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
		})
	}
	p.connect()
	mine := []SGE{{Addr: fastBase, Len: 64, Token: token}}
	if b, _ := new(memory.Recent).Local(p.mem[1], owner.user(), token, fastBase, 64, RightLocalWrite); b == nil {
		t.Fatal("its own queue pair may not use it")
	}
	r := p.write(1, 0, 64)
	r.SGL = mine
	p.post(1, r)
	p.runUntilIdle()
	p.outcomes(1, OutcomeAccessViolation)
}
