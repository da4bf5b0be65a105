package provider

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// refusal is the outcome of requests for memory that the peer does not grant. It is the same for every cause: if the outcome of a
// wrong token differed from that of a wrong address, an attacker could guess tokens without knowing addresses.
var refusal = map[RequestKind]Outcome{KindWrite: OutcomeAccessViolation, KindRead: OutcomeReadRefused}

// TestRemoteAccessIsCheckedBeforeAnythingIsWritten tries every way to exceed a region. All requests end with the same outcome, the
// peer's receives are canceled, and memory does not change.
func TestRemoteAccessIsCheckedBeforeAnythingIsWritten(t *testing.T) {
	const size = 4 << 20
	base := func(p *pair) uint64 { return p.reg[1].Base() }
	for name, change := range map[string]func(p *pair, r *listed){
		"token":         func(_ *pair, r *listed) { r.Token ^= 1 << 20 },
		"zero token":    func(_ *pair, r *listed) { r.Token = 0 },
		"own token":     func(p *pair, r *listed) { r.Token = p.reg[0].Token() },
		"before":        func(p *pair, r *listed) { r.Addr = base(p) - 1 },
		"last byte out": func(p *pair, r *listed) { r.Addr = base(p) + size - uint64(r.Length) + 1 },
		"behind":        func(p *pair, r *listed) { r.Addr = base(p) + size },
		"end of space":  func(_ *pair, r *listed) { r.Addr = math.MaxUint64 - 10 },
		"wraps to zero": func(_ *pair, r *listed) { r.Addr = math.MaxUint64 - uint64(r.Length) + 1 },
		"zero":          func(_ *pair, r *listed) { r.Addr = 0 },
		"deregistered":  func(p *pair, _ *listed) { p.mem[1].Deregister(p.reg[1]) },
		"right": func(p *pair, r *listed) {
			other, _ := p.mem[1].Register(make([]byte, size), RightLocalWrite)
			r.Addr, r.Token = other.Base(), other.Token()
		},
	} {
		for _, kind := range []RequestKind{KindWrite, KindRead} {
			for _, n := range []uint32{1, 3000} {
				p := newPair(t, 1408).connect()
				own, _ := p.mem[1].Register(make([]byte, 64), RightLocalWrite)
				_, o := p.qp[1].PostReceive(0, []SGE{{Addr: own.Base(), Len: 64, Token: own.Token()}}, 64)
				p.must(o)
				p.fill(0, 0, n, 1)
				r := p.write(0, 0, n)
				r.Kind = kind
				change(p, r)
				p.post(0, r)
				p.post(0, p.write(0, 0, 1))
				p.runUntilIdle()
				rs := p.results(0)
				if len(rs) != 2 || rs[0].Outcome != refusal[kind] || rs[1].Outcome != OutcomeCanceled {
					t.Errorf("%s, kind %d, %d bytes: %+v", name, kind, n, rs)
				}
				p.outcomes(1, OutcomeCanceled)
				if !p.all(1, 0, size, 0) && name != "last byte out" || !p.all(0, n, 1, 0) {
					t.Errorf("%s, kind %d, %d bytes: memory was written", name, kind, n)
				}
			}
		}
	}
}

func TestReadOfHugeLengthIsRefusedByTheResponder(t *testing.T) {
	p := newPair(t, 1408).connect()
	r := p.read(0, 8)
	r.Length = MaxTransfer
	p.post(0, r)
	p.runUntilIdle()
	p.outcomes(0, OutcomeReadRefused)
	r.Length = math.MaxUint32
	if _, o := r.post(p.qp[0]); o != OutcomeBufferOverflow {
		t.Error(o)
	}
}

// If a region is deregistered during a Read, it is not read again (I5), and the connection ends. This holds also if the loss of a
// response reveals it, because the response cannot be built again.
func TestReadOfMemoryThatGoesAway(t *testing.T) {
	for _, lose := range []int{0, 1, 3} {
		p := newPair(t, 1408)
		p.connect()
		p.post(0, p.read(0, 1<<20))
		n := lose
		p.link[0].mangle = func(b []byte) bool {
			if sequenced(b) && n > 0 {
				n--
				return false
			}
			return true
		}
		for range 5 {
			p.turn()
		}
		p.mem[1].Deregister(p.reg[1])
		p.pass(100 * time.Millisecond)
		p.outcomes(0, OutcomeReadRefused)
		if p.ctr[1].State() != CtrLost || p.ctr[0].State() != CtrLost {
			t.Errorf("lose %d: states %v and %v", lose, p.ctr[0].State(), p.ctr[1].State())
		}
		p.pass(20 * time.Second)
		for i := range 2 {
			if s := p.eng[i].Stats(); s.Connections != 0 || s.IllegalTransitions != 0 {
				t.Errorf("lose %d, engine %d: %+v", lose, i, s)
			}
		}
	}
}

// TestMemoryGoneBeforeTheAcknowledgement ends the access to memory after a READ was answered, and before the answer is
// acknowledged. If the requester has the answer, the READ succeeds. If the answer was lost, the READ fails (PROTOCOL §7.6).
func TestMemoryGoneBeforeTheAcknowledgement(t *testing.T) {
	for _, lost := range []bool{false, true} {
		p := newPair(t, 1408).connect()
		p.transfer(5000)
		r, _ := p.mem[1].Register(make([]byte, 2000), RightRemoteRead)
		req := p.read(0, 2000)
		req.Addr, req.Token = r.Base(), r.Token()
		p.post(0, req)
		p.link[1].mangle = func(b []byte) bool { // acknowledgements on their way to the responder are lost
			return sequenced(b) || opcode(b) == wire.CtlPing || opcode(b) == wire.CtlPong
		}
		if lost {
			p.loseFirst(0, 1<<30, wire.OpReadResp)
		}
		p.conn(1).leaveIdle()
		for p.conn(1).traffic.sent.packets.PacketsInFlight() < 2 {
			p.turn()
		}
		p.runUntilIdle()
		p.must(p.mem[1].Deregister(r))
		p.pass(p.conn(1).rtt.Probe() * 2)
		p.link[1].mangle = nil
		p.pass(time.Second)
		if lost {
			p.outcomes(0, OutcomeReadRefused)
			continue
		}
		p.outcomes(0, OutcomeSuccess)
		p.move(1)
	}
}

// Memory may be lost while an answer is about to be retransmitted and its acknowledgement is on its way. Then the next READ is
// refused, and earlier ones succeed.
func TestMemoryLostWhileAnAnswerIsBuiltAgain(t *testing.T) {
	p := newPair(t, 1408).connect()
	r, _ := p.mem[1].Register(make([]byte, 2000), RightRemoteRead)
	req := p.read(0, 2000)
	req.Addr, req.Token = r.Base(), r.Token()
	p.post(0, req)
	acknowledged := false
	p.link[1].mangle = func([]byte) bool { return acknowledged }
	acknowledged = true
	for p.conn(1).traffic.sent.packets.PacketsInFlight() < 2 {
		p.turn()
	}
	acknowledged = false
	p.turn()
	p.outcomes(0, OutcomeSuccess)
	c := p.conn(1)
	p.must(p.mem[1].Deregister(r))
	if !c.traffic.beginPacket(int(c.mtu.Packet)) {
		t.Fatal("no packet")
	}
	if _, ok := c.traffic.packSpace(wire.ResponseSpace, c.traffic.sent.spaces[wire.ResponseSpace].Una(), c.traffic.sent.spaces[wire.ResponseSpace].Next(), false); ok || c.traffic.served.Terminated() {
		t.Errorf("built again: %v, terminated: %v", ok, c.traffic.served.Terminated())
	}
	acknowledged = true
	p.post(0, req)
	p.pass(time.Second)
	p.outcomes(0, OutcomeReadRefused)
}

// hold makes the network keep some packets to a side. held has them.
func (p *pair) hold(side int, which func(h wire.BaseHeader) bool) (held *[][]byte) {
	held = new([][]byte)
	p.link[side].mangle = func(b []byte) bool {
		h, _ := wire.ParseBaseHeader(b)
		if which(h) {
			*held = append(*held, bytes.Clone(b))
		}
		return !which(h)
	}
	return held
}

// READ responses count as lost and cannot leave again for many round trips. Meanwhile they arrive after all, and the application ends the
// access. The late acknowledgement still counts, so the connection goes on (PROTOCOL §7.6).
func TestMemoryLostWhileAnAnswerWaitsForFrames(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	r, _ := p.mem[1].Register(make([]byte, 2000), RightRemoteRead)
	req := p.read(0, 2000)
	req.Addr, req.Token = r.Base(), r.Token()
	c := p.conn(1)
	answer := p.hold(0, func(h wire.BaseHeader) bool { return !h.Control() && h.Space() == wire.ResponseSpace })
	p.post(0, req)
	for len(*answer) < 2 {
		p.turn()
	}
	first := c.traffic.sent.packets.Floor()
	for c.traffic.sent.packets.Packet(first).Kind != recovery.Responses {
		first++
	}
	pongs := p.hold(1, func(wire.BaseHeader) bool { return true })
	for n := range 2 {
		c.traffic.sendPing()
		for c.engine.out.Flush(); len(*pongs) <= n; {
			p.turn()
		}
	}
	p.link[1].mangle = nil

	taken, out := p.link[1].txFree, c.engine.out
	p.link[1].txFree = nil
	c.engine.out = packet.NewOut(p.link[1])
	p.now = p.now.Add(10 * c.rtt.Smoothed)
	p.deliver(1, (*pongs)[0])
	p.now = p.now.Add(20 * c.rtt.Smoothed)
	p.deliver(1, (*pongs)[1])
	p.now = p.now.Add(20 * c.rtt.Smoothed)
	c.traffic.sent.packets.Forget(&c.rtt, p.now, c.traffic.sent.waits) // as with the next acknowledgement
	if !c.traffic.sent.spaces[wire.ResponseSpace].HasAgain() {
		t.Fatal("the answer does not count as lost")
	}
	if c.traffic.sent.packets.Floor() > first {
		t.Error("the records of an answer that waits are gone")
	}

	late := p.hold(1, func(wire.BaseHeader) bool { return true })
	p.link[0].mangle = nil
	for _, b := range *answer {
		p.deliver(0, b)
	}
	p.outcomes(0, OutcomeSuccess)
	p.must(p.mem[1].Deregister(r))
	p.link[1].txFree, c.engine.out = taken, out
	p.pass(5 * time.Millisecond)
	p.link[1].mangle = nil
	if len(*late) == 0 || c.traffic.served.Terminated() {
		t.Fatalf("%d acknowledgements; terminated: %v", len(*late), c.traffic.served.Terminated())
	}
	for _, b := range *late {
		p.deliver(1, b)
	}
	p.pass(time.Second)
	p.post(0, p.write(0, 0, 64))
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
}

// If a bound window is released, its region can be deregistered.
func TestReleasedWindowLetsItsRegionGo(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.grant(4096, readWrite)
	p.mem[1].ReleaseWindow(w)
	if n := p.mem[1].Windows(p.reg[1]); n != 0 {
		t.Errorf("%d windows are bound", n)
	}
	p.must(p.mem[1].Deregister(p.reg[1]))
	p.mem[1].ReleaseWindow(w) // harmless
}
