package provider

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/wire"
)

// The state table of windows (ND specification 14), row by row, and attacks of peers with tokens of windows.

func (p *pair) window(side int) *MemoryWindow {
	p.tb.Helper()
	w, err := p.mem[side].NewWindow()
	if err != nil {
		p.tb.Fatal(err)
	}
	return w
}

const readWrite = FlagAllowRead | FlagAllowWrite

// bind posts the binding of n bytes at offset off of side's region.
func (p *pair) bind(side int, w *MemoryWindow, off, n uint64, flags PostFlags) Outcome {
	r := p.reg[side]
	_, o := p.qp[side].Bind(&BindRequest{Window: w, Region: r, Addr: r.Base() + off, Length: n, Flags: flags})
	return o
}

// bindTo binds a window of the first 4096 bytes of side 1's region to qp, at the address base, as its engine does.
func (p *pair) bindTo(qp *QP, w *MemoryWindow, base uint64) Token {
	p.tb.Helper()
	b, ok := w.Prepare(p.reg[1], p.reg[1].Base(), 4096, base, RightRemoteRead|RightRemoteWrite)
	if !ok {
		p.tb.Fatal("a binding is refused")
	}
	p.must(p.mem[1].Bind(qp.user(), &b))
	return b.Posted()
}

// grant binds a window of the first n bytes of side 1's region and waits until the binding completes.
func (p *pair) grant(n uint64, flags PostFlags) *MemoryWindow {
	p.tb.Helper()
	w := p.window(1)
	p.must(p.bind(1, w, 0, n, flags))
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess)
	return w
}

// invalidate posts the invalidation of a window of side 1.
func (p *pair) invalidate(w *MemoryWindow) {
	p.tb.Helper()
	_, o := p.qp[1].Invalidate(0, w, 0)
	p.must(o)
}

// through is a Write of side 0 by the token of the window.
func (p *pair) through(w *MemoryWindow, off, n uint32) *listed {
	r := p.write(0, off, n)
	r.Token = w.Token()
	return r
}

func TestW01BindMakesTheWindowBound(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.window(1)
	if w.Token() != 0 || w.Bound() {
		t.Fatal("a new window is bound")
	}
	p.must(p.bind(1, w, 0, 4096, readWrite))
	if w.Token() == 0 || w.Bound() {
		t.Fatal("the token is readable when Bind returns, and the window bound when it is carried out")
	}
	p.runUntilIdle()
	if rs := p.outcomes(1, OutcomeSuccess); rs[0].Kind != KindBind || !w.Bound() {
		t.Fatalf("%+v", rs)
	}
	p.fill(0, 0, 3000, 7)
	p.post(0, p.through(w, 0, 3000))
	rd := p.read(0, 10)
	rd.Token = w.Token()
	p.post(0, rd)
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	reads, writes := w.RemoteAccesses()
	regionReads, regionWrites := p.reg[1].RemoteAccesses()
	if !p.all(1, 0, 3000, 7) || reads != 1 || writes != 3 || regionReads+regionWrites != 0 {
		t.Errorf("%d reads, %d writes; of the region %d, %d", reads, writes, regionReads, regionWrites)
	}
}

func TestW02BindOfABoundWindowEndsTheConnection(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.grant(4096, readWrite)
	p.receive(1, 0, 10)
	p.must(p.bind(1, w, 0, 4096, readWrite))
	p.post(1, p.write(1, 0, 10))
	p.runUntilIdle()
	rs := p.outcomes(1, OutcomeInvalidRequest, OutcomeCanceled, OutcomeCanceled)
	if rs[0].Kind != KindBind || w.Bound() || p.ctr[1].State() != CtrLost || p.ctr[0].State() != CtrLost {
		t.Errorf("%+v, %v, %v", rs, p.ctr[0].State(), p.ctr[1].State())
	}
}

func TestW03InvalidateMakesTheWindowInvalid(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.grant(4096, readWrite)
	p.invalidate(w)
	p.runUntilIdle()
	if rs := p.outcomes(1, OutcomeSuccess); rs[0].Kind != KindInvalidate || w.Bound() {
		t.Fatalf("%+v", rs)
	}
	first := w.Token()
	p.must(p.bind(1, w, 0, 64, FlagAllowRead))
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess)
	if w.Token() == first {
		t.Error("a binding has the token of the one before")
	}
}

func TestW04InvalidateOfAnUnboundWindowEndsTheConnection(t *testing.T) {
	for _, before := range []string{"never bound", "invalidated"} {
		p := newPair(t, 1408).connect()
		w := p.window(1)
		if before == "invalidated" {
			w = p.grant(64, 0)
			p.invalidate(w)
			p.runUntilIdle()
			p.outcomes(1, OutcomeSuccess)
		}
		p.invalidate(w)
		p.runUntilIdle()
		if rs := p.outcomes(1, OutcomeInvalidRequest); rs[0].Kind != KindInvalidate || p.ctr[0].State() != CtrLost {
			t.Errorf("%s: %+v, %v", before, rs, p.ctr[0].State())
		}
	}
}

func TestW05DeregisterWithABoundWindowIsBusy(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.grant(4096, readWrite)
	if o := p.mem[1].Deregister(p.reg[1]); o != OutcomeDeviceBusy {
		t.Fatal(o)
	}
	p.post(0, p.through(w, 0, 10)) // nothing changed
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.invalidate(w)
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess)
	p.must(p.mem[1].Deregister(p.reg[1]))
	if o := p.mem[1].Deregister(p.reg[1]); o != OutcomeInvalidState { // M04
		t.Error(o)
	}
}

func TestW06WindowsEndWithTheirQueuePair(t *testing.T) {
	for name, end := range map[string]func(p *pair){
		"flushed":  func(p *pair) { p.qp[1].Flush() },
		"released": func(p *pair) { p.qp[1].Release() },
		"lost": func(p *pair) {
			bad := p.write(0, 0, 10)
			bad.Token ^= 1
			p.post(0, bad)
			p.runUntilIdle()
		},
		"disconnected": func(p *pair) { p.must(p.ctr[1].Disconnect(func(Outcome) {})) },
		"cut off":      func(p *pair) { p.ctr[0].Close(); p.runUntilIdle() },
		"timed out": func(p *pair) {
			p.link[0].mangle = func([]byte) bool { return false }
			p.post(1, p.write(1, 0, 10))
			p.pass(20 * time.Second)
		},
	} {
		p := newPair(t, 1408).connect()
		ws := []*MemoryWindow{p.grant(4096, readWrite), p.grant(64, 0), p.grant(1, FlagAllowRead)}
		end(p)
		for _, w := range ws {
			if w.Bound() {
				t.Errorf("%s: the window is bound", name)
			}
		}
		if o := p.mem[1].Deregister(p.reg[1]); o != OutcomeSuccess {
			t.Errorf("%s: %v", name, o)
		}
	}
}

// An access in flight when the owner of the window disconnected or flushed is not a violation, because its sender could not know of
// it.
func TestWindowGoneWhileAnAccessWasUnderWay(t *testing.T) {
	for _, kind := range []RequestKind{KindWrite, KindRead} {
		for end, want := range map[string]Outcome{"disconnect": OutcomeCanceled, "flush": OutcomeRemoteError} {
			p := newPair(t, 1408).connect()
			w := p.grant(4096, readWrite)
			r := p.through(w, 0, 100)
			r.Kind = kind
			p.post(0, r)
			p.eng[0].Run(p.now)
			if end == "flush" {
				p.qp[1].Flush()
			} else {
				p.must(p.ctr[1].Disconnect(func(Outcome) {}))
			}
			p.runUntilIdle()
			if rs := p.outcomes(0, want); rs[0].Kind != kind {
				t.Errorf("%s: %+v", end, rs)
			}
		}
	}
}

// ungranted has accesses that no window grants.
func ungranted() map[string]func(p *pair, w *MemoryWindow, r *listed) {
	const top = math.MaxUint64
	base := func(p *pair) uint64 { return p.reg[1].Base() }
	revoked := func(p *pair, w *MemoryWindow) {
		p.invalidate(w)
		p.runUntilIdle()
		p.outcomes(1, OutcomeSuccess)
	}
	return map[string]func(p *pair, w *MemoryWindow, r *listed){
		"never bound": func(p *pair, _ *MemoryWindow, r *listed) { r.Token = p.window(1).Token() },
		"invalidated": func(p *pair, w *MemoryWindow, _ *listed) { revoked(p, w) },
		"old token": func(p *pair, w *MemoryWindow, _ *listed) {
			revoked(p, w)
			p.must(p.bind(1, w, 0, 4096, readWrite))
			p.runUntilIdle()
			p.outcomes(1, OutcomeSuccess)
		},
		"closed":        func(p *pair, w *MemoryWindow, _ *listed) { p.mem[1].ReleaseWindow(w) },
		"region closed": func(p *pair, _ *MemoryWindow, _ *listed) { p.mem[1].Release(p.reg[1]) },
		"no rights":     func(p *pair, _ *MemoryWindow, r *listed) { r.Token = p.grant(4096, 0).Token() },
		"other right": func(p *pair, _ *MemoryWindow, r *listed) {
			flags := FlagAllowRead
			if r.Kind == KindRead {
				flags = FlagAllowWrite
			}
			r.Token = p.grant(4096, flags).Token()
		},
		"other queue pair": func(p *pair, _ *MemoryWindow, r *listed) {
			w := p.window(1)
			other := p.eng[1].NewQP(QPConfig{ReceiveCQ: p.cq[1], InitiatorCQ: p.cq[1]})
			r.Token = p.bindTo(other, w, base(p))
		},
		"not carried out": func(p *pair, _ *MemoryWindow, r *listed) {
			p.qp[1].rung.Store(true) // the engine ignores the doorbell
			w := p.window(1)
			p.must(p.bind(1, w, 0, 4096, readWrite))
			r.Token = w.Token()
		},
		"before":        func(p *pair, _ *MemoryWindow, r *listed) { r.Addr = base(p) - 1 },
		"last byte out": func(p *pair, _ *MemoryWindow, r *listed) { r.Addr = base(p) + 4096 - uint64(r.Length) + 1 },
		"behind":        func(p *pair, _ *MemoryWindow, r *listed) { r.Addr = base(p) + 4096 },
		"wraps":         func(_ *pair, _ *MemoryWindow, r *listed) { r.Addr = top - uint64(r.Length) + 1 },
		"end of space":  func(_ *pair, _ *MemoryWindow, r *listed) { r.Addr = top },
	}
}

// State W07, and other attempts of peers: the request ends with an access violation, the connection ends, and no memory is touched.
func TestW07AccessThatNoWindowGrants(t *testing.T) {
	for name, change := range ungranted() {
		for _, kind := range []RequestKind{KindWrite, KindRead} {
			p := newPair(t, 1408).connect()
			w := p.grant(4096, readWrite)
			r := p.through(w, 0, 100)
			r.Kind = kind
			p.receive(1, 8192, 10)
			p.runUntilIdle()
			change(p, w, r)
			p.fill(0, 0, 100, 1)
			p.post(0, r)
			p.runUntilIdle()
			rs := p.results(0)
			if len(rs) != 1 || rs[0].Outcome != refusal[kind] {
				t.Errorf("%s, kind %d: %+v", name, kind, rs)
			}
			mine := p.results(1)
			if len(mine) == 0 || p.ctr[1].State() != CtrLost || p.eng[1].Stats().Drops[wire.DropToken] != 1 {
				t.Errorf("%s, kind %d: %+v, %v", name, kind, mine, p.ctr[1].State())
			}
			for _, m := range mine {
				if m.Outcome != OutcomeCanceled {
					t.Errorf("%s, kind %d: %+v", name, kind, m)
				}
			}
			if !p.all(1, 0, 8192, 0) {
				t.Errorf("%s, kind %d: memory was written", name, kind)
			}
		}
	}
}

func TestBindIsRefusedAtOnce(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.window(1)
	readOnly, _ := p.mem[1].Register(make([]byte, 64), 0)
	gone, _ := p.mem[1].Register(make([]byte, 64), RightLocalWrite)
	p.must(p.mem[1].Deregister(gone))
	for name, c := range map[string]struct {
		r       *Region
		addr, n uint64
		flags   PostFlags
		want    Outcome
	}{
		"before":                 {p.reg[1], p.reg[1].Base() - 1, 1, 0, OutcomeAccessViolation},
		"too long":               {p.reg[1], p.reg[1].Base(), 4<<20 + 1, 0, OutcomeAccessViolation},
		"wraps":                  {p.reg[1], p.reg[1].Base() + 1, math.MaxUint64, 0, OutcomeAccessViolation},
		"end of space":           {p.reg[1], math.MaxUint64, 1, 0, OutcomeAccessViolation},
		"no local write":         {readOnly, readOnly.Base(), 64, FlagAllowWrite, OutcomeAccessViolation},
		"region is gone":         {gone, gone.Base(), 64, 0, OutcomeAccessViolation},
		"read needs no right":    {readOnly, readOnly.Base(), 64, FlagAllowRead, OutcomeSuccess},
		"neither right":          {readOnly, readOnly.Base() + 64, 0, 0, OutcomeSuccess},
		"rights of the window's": {readOnly, readOnly.Base(), 1, FlagAllowRead, OutcomeSuccess},
	} {
		token := w.Token()
		if c.want == OutcomeSuccess {
			w = p.window(1)
		}
		_, o := p.qp[1].Bind(&BindRequest{Window: w, Region: c.r, Addr: c.addr, Length: c.n, Flags: c.flags})
		if o != c.want || o != OutcomeSuccess && w.Token() != token {
			t.Errorf("%s: %v", name, o)
		}
	}
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
	idle := p.eng[1].NewQP(QPConfig{ReceiveCQ: p.cq[1], InitiatorCQ: p.cq[1], InitiatorDepth: 4})
	if _, o := idle.Bind(&BindRequest{Window: w, Region: p.reg[1], Addr: 1}); o != OutcomeConnectionInvalid {
		t.Error(o)
	}
	if _, o := idle.Invalidate(0, w, 0); o != OutcomeConnectionInvalid {
		t.Error(o)
	}
}

func TestBindCountsTowardsTheDepth(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.window(1)
	for range 256 {
		p.post(1, p.send(1, 10)) // blocked: the peer has posted no receive
	}
	if o := p.bind(1, w, 0, 1, 0); o != OutcomeNoMoreEntries || w.Token() != 0 {
		t.Errorf("%v, token %#x", o, w.Token())
	}
	if _, o := p.qp[1].Invalidate(0, w, 0); o != OutcomeNoMoreEntries {
		t.Error(o)
	}
}

// The region or the window is gone when the engine executes a posted Bind.
func TestBindOfWhatIsGoneWhenItsTurnComes(t *testing.T) {
	for name, c := range map[string]struct {
		gone func(p *pair, w *MemoryWindow)
		want Outcome
	}{
		"region": {func(p *pair, _ *MemoryWindow) { p.must(p.mem[1].Deregister(p.reg[1])) }, OutcomeAccessViolation},
		"window": {func(p *pair, w *MemoryWindow) { p.mem[1].ReleaseWindow(w) }, OutcomeInvalidRequest},
	} {
		p := newPair(t, 1408).connect()
		w := p.window(1)
		p.must(p.bind(1, w, 0, 64, readWrite))
		c.gone(p, w)
		p.runUntilIdle()
		p.outcomes(1, c.want)
		if w.Bound() || p.ctr[0].State() != CtrLost {
			t.Errorf("%s: %v", name, p.ctr[0].State())
		}
	}
}

// Requests posted to a queue pair in the error state complete with CANCELED, and nothing is bound.
func TestBindAfterTheEndIsCanceled(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.window(1)
	p.qp[1].Flush()
	p.must(p.bind(1, w, 0, 64, readWrite))
	p.invalidate(w)
	p.runUntilIdle()
	if rs := p.outcomes(1, OutcomeCanceled, OutcomeCanceled); rs[0].Kind != KindBind || rs[1].Kind != KindInvalidate || w.Bound() {
		t.Errorf("%+v", rs)
	}
}

// Each segment of a READ answer is checked: a READ fails if its window is invalidated while the answer is being sent.
func TestInvalidateStopsAReadUnderWay(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.grant(1<<20, FlagAllowRead)
	r := p.read(0, 1<<20)
	r.Token = w.Token()
	p.post(0, r)
	for range 5 {
		p.turn()
	}
	p.invalidate(w)
	p.pass(100 * time.Millisecond)
	p.outcomes(0, OutcomeReadRefused)
	p.outcomes(1, OutcomeSuccess)
	if reads, _ := w.RemoteAccesses(); reads == 0 || reads > 700 {
		t.Errorf("%d packets of the answer were sent", reads)
	}
}

// One region has many overlapping windows with different rights. The table becomes full, and has room again after windows are
// released.
func TestManyWindows(t *testing.T) {
	p := newPair(t, 1408).connect()
	var ws []*MemoryWindow
	for i := range 200 {
		w := p.window(1)
		p.must(p.bind(1, w, uint64(i), 100, []PostFlags{FlagAllowWrite, FlagAllowRead}[i%2]))
		ws = append(ws, w)
	}
	p.runUntilIdle()
	if n := len(p.results(1)); n != 200 || p.mem[1].Windows(p.reg[1]) != 200 {
		t.Fatalf("%d results, %d windows", n, p.mem[1].Windows(p.reg[1]))
	}
	for i := 0; i < 200; i += 2 {
		r := p.through(ws[i], uint32(i), 100)
		p.post(0, r)
	}
	p.runUntilIdle()
	if n := len(p.results(0)); n != 100 {
		t.Fatalf("%d Writes are done", n)
	}
	for i := range ws { // from the middle and both ends, by release and by invalidation
		w := ws[(i*37+100)%200]
		if i%3 == 0 {
			p.mem[1].ReleaseWindow(w)
			p.mem[1].ReleaseWindow(w)
		} else {
			p.invalidate(w)
		}
		p.runUntilIdle()
	}
	if p.mem[1].Windows(p.reg[1]) != 0 || p.qp[1].user().HasWindows() {
		t.Error("windows are left")
	}
	var full []*MemoryWindow
	for {
		w, err := p.mem[1].NewWindow()
		if err != nil {
			break
		}
		full = append(full, w)
	}
	if len(full) < memory.MaxRegions-300 {
		t.Errorf("only %d windows", len(full))
	}
	p.mem[1].ReleaseWindow(full[5])
	if _, err := p.mem[1].NewWindow(); err != nil {
		t.Error(err)
	}
}

// Windows are for peers: a local request may not use the token of a window.
func TestWindowTokenIsNoLocalToken(t *testing.T) {
	for _, kind := range []RequestKind{KindWrite, KindRead} {
		p := newPair(t, 1408).connect()
		w := p.window(0)
		p.must(p.bind(0, w, 0, 4096, readWrite))
		r := p.write(0, 0, 10)
		r.Kind, r.SGL[0].Token = kind, w.Token()
		p.post(0, r)
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess, OutcomeAccessViolation)
		if p.mem[0].Lookup(w.Token()) != nil {
			t.Error(fmt.Sprint("kind ", kind, ": the window is a region"))
		}
	}
}
