package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/wire"
)

// The rules of ordering and matching (ND specification 11.2, 11.3). Each test is named after its rule.

func TestWriteIsInPlaceBeforeTheSendBehindIt(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(1, 1<<20, 100)
	p.runUntilIdle()
	p.fill(0, 0, 1300, 7)
	p.loseFirst(1, 1, wire.OpWrite)
	p.post(0, p.write(0, 0, 1300))
	p.post(0, p.send(0, 100))
	p.runUntilIdle()
	if s := p.eng[1].Stats(); s.PacketsIn == 0 || !p.cq[1].Empty() {
		t.Fatal("the Send overtook the lost Write")
	}
	p.pass(50 * time.Millisecond)
	p.outcomes(1, OutcomeSuccess)
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	if !p.all(1, 0, 1300, 7) {
		t.Fatal("the Write is not in place")
	}
}

func TestReadFence(t *testing.T) {
	for _, fence := range []bool{false, true} {
		p := newPair(t, 1408).connect()
		p.fill(0, 4096, 8, 1)
		p.loseFirst(0, 1, wire.OpReadResp)
		p.post(0, p.read(0, 64))
		w := p.write(0, 4096, 8)
		if fence {
			w.Flags |= FlagReadFence
		}
		p.post(0, w)
		p.runUntilIdle()
		if overtook := p.all(1, 4096, 8, 1); overtook == fence {
			t.Fatalf("fence %v: the Write overtook the Read: %v", fence, overtook)
		}
		if !p.cq[0].Empty() {
			t.Fatal("a result overtook that of the Read")
		}
		p.pass(50 * time.Millisecond)
		if rs := p.outcomes(0, OutcomeSuccess, OutcomeSuccess); rs[0].Kind != KindRead || rs[1].Kind != KindWrite {
			t.Fatalf("results out of order: %+v", rs)
		}
	}
}

// Results come in the order of posting (I6): the result of an acknowledged Write waits for the Read before it.
func TestResultsComeInPostingOrderAlsoBehindAnUnansweredRead(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(1, 0, 10)
	p.runUntilIdle()
	p.loseFirst(0, 2, wire.OpReadResp)
	kinds := []RequestKind{KindRead, KindWrite, KindSend, KindRead}
	p.post(0, p.read(0, 5000))
	p.post(0, p.write(0, 0, 10))
	p.post(0, p.send(0, 10))
	p.post(0, p.read(0, 0))
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess) // the Send has overtaken the Read
	p.outcomes(0)
	p.pass(50 * time.Millisecond)
	for i, r := range p.outcomes(0, 0, 0, 0, 0) {
		if r.Kind != kinds[i] {
			t.Fatalf("result %d is of kind %d, want %d", i, r.Kind, kinds[i])
		}
	}
}

func TestSilentSuccess(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := p.write(0, 0, 10)
	w.Flags = FlagSilentSuccess
	p.post(0, w)
	p.runUntilIdle()
	p.outcomes(0)
	bad := p.write(0, 0, 10)
	bad.Flags, bad.Token = FlagSilentSuccess, bad.Token^1
	p.post(0, bad)
	p.runUntilIdle()
	p.outcomes(0, OutcomeAccessViolation) // a failed request has a result although it is silent
}

func TestSendWaitsForAReceiveAndGoesAsSoonAsOneIsPosted(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.send(0, 10))
	p.pass(time.Second)
	p.outcomes(0)
	at := p.now
	p.receive(1, 0, 10)
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
	if d := p.now.Sub(at); d > 50*time.Microsecond {
		t.Errorf("it took %v", d)
	}
}

// Receives posted between Accept and the establishment count, although the REP was sent before.
func TestReceivesPostedDuringTheHandshakeCount(t *testing.T) {
	p := newPair(t, 1408)
	p.afterAccept = func() { p.receive(1, 0, 10) }
	p.connect()
	p.runUntilIdle()
	p.post(0, p.send(0, 10))
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess)
}

func TestNoReceiveTimesOut(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(0, 0, 10) // the sender's own receive is canceled too
	p.post(0, p.write(0, 0, 10))
	p.post(0, p.send(0, 10))
	p.post(0, p.send(0, 10))
	p.post(0, p.write(0, 0, 10))
	p.pass(1990 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	p.pass(20 * time.Millisecond)
	rs := p.outcomes(0, OutcomeIOTimeout, OutcomeCanceled, OutcomeCanceled, OutcomeCanceled)
	if rs[3].Kind != KindReceive {
		t.Errorf("%+v", rs)
	}
	p.outcomes(1)
	if p.qp[1].State() != QPError || p.ctr[1].State() != CtrLost {
		t.Errorf("the receiver's side is %v, %v", p.qp[1].State(), p.ctr[1].State())
	}
}

// The memory of a SEND is checked when the SEND is next to leave, whether or not the peer has a receive for it, and again while it
// is blocked (ND specification 11.1).
func TestMemoryOfASendIsLookedAtBeforeItWaitsForAReceive(t *testing.T) {
	for name, change := range map[string]func(*pair, *listed){
		"token":      func(_ *pair, r *listed) { r.SGL[0].Token ^= 1 },
		"zero":       func(_ *pair, r *listed) { r.SGL[0].Token = 0 },
		"the peer's": func(p *pair, r *listed) { r.SGL[0].Token = p.reg[1].Token() },
		"bounds":     func(_ *pair, r *listed) { r.SGL[0].Addr-- },
		"invalidate": func(_ *pair, r *listed) { r.SGL[0].Token ^= 1; r.Flags |= FlagInvalidate },
		"gone while waiting": func(p *pair, _ *listed) {
			p.pass(100 * time.Millisecond)
			p.outcomes(0)
			p.must(p.mem[0].Deregister(p.reg[0]))
			p.pass(credit.AskInterval)
		},
	} {
		p := newPair(t, 1408).connect()
		p.receive(0, 0, 10)
		p.receive(1, 0, 10)
		p.post(0, p.read(0, 5000))
		p.post(0, p.send(0, 10))
		p.post(0, p.write(0, 4096, 10))
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
		p.outcomes(1, OutcomeSuccess)
		wrong := p.send(0, 10)
		if name == "gone while waiting" {
			p.post(0, wrong)
			change(p, wrong)
		} else {
			change(p, wrong)
			p.post(0, wrong)
		}
		p.post(0, p.write(0, 0, 10))
		p.pass(time.Millisecond)
		rs := p.results(0)
		if len(rs) != 3 || rs[0].Outcome != OutcomeAccessViolation || rs[1].Outcome != OutcomeCanceled || rs[2].Outcome != OutcomeCanceled {
			t.Errorf("%s: %+v", name, rs)
		}
		if p.ctr[1].State() != CtrLost {
			t.Errorf("%s: the peer's connector is %v", name, p.ctr[1].State())
		}
	}
}

// Requests before a SEND with invalid memory complete as they would without it.
func TestRequestsAheadOfASendThatWaitsInVainAreDone(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(1, 0, 10)
	wrong := p.send(0, 10)
	wrong.SGL[0].Token ^= 1
	p.post(0, p.send(0, 10))
	p.post(0, p.read(0, 100000))
	p.post(0, wrong)
	p.runUntilIdle()
	p.pass(credit.AskInterval)
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess, OutcomeAccessViolation)
	p.outcomes(1, OutcomeSuccess)
}

func TestReadsBeyondTheOutboundLimitWait(t *testing.T) {
	p := newPair(t, 1408)
	p.limits = [2]ConnectParams{{Inbound: 16, Outbound: 3}, {Inbound: 16, Outbound: 16}}
	p.connect()
	most := uint32(0)
	for range 20 {
		p.post(0, p.read(0, 3000))
	}
	for p.turn() {
		s := &p.conn(1).traffic.served
		most = max(most, s.Waiting())
	}
	p.pass(time.Millisecond)
	if n := len(p.results(0)); n != 20 || most != 3 {
		t.Errorf("%d of 20 Reads done, %d at once", n, most)
	}
}

func TestReadWithoutALimitIsRefusedAtOnce(t *testing.T) {
	p := newPair(t, 1408)
	p.limits = [2]ConnectParams{{Inbound: 16, Outbound: 3}, {Inbound: 0, Outbound: 16}}
	p.connect()
	if _, o := p.read(0, 10).post(p.qp[0]); o != OutcomeInvalidRequest {
		t.Fatal(o)
	}
	p.post(0, p.write(0, 0, 10))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
}

func TestReadsBeyondTheInboundLimitEndTheConnection(t *testing.T) {
	p := newPair(t, 1408)
	p.limits = [2]ConnectParams{{Inbound: 16, Outbound: 2}, {Inbound: 2, Outbound: 16}}
	p.connect()
	p.receive(1, 0, 10)
	p.conn(0).requestNumbers.ord = 9 // a peer that exceeds the agreed limit
	for range 3 {
		p.post(0, p.read(0, 3000))
	}
	p.runUntilIdle()
	p.outcomes(0, OutcomeCanceled, OutcomeCanceled, OutcomeRemoteError)
	p.outcomes(1, OutcomeCanceled)
}

func TestSendLongerThanTheReceive(t *testing.T) {
	for _, n := range []uint32{11, 5000} {
		p := newPair(t, 1408).connect()
		p.receive(1, 0, 10)
		p.receive(1, 100, 6000)
		p.runUntilIdle()
		p.fill(0, 0, n, 9)
		p.post(0, p.write(0, 8192, 10))
		p.post(0, p.send(0, n))
		p.post(0, p.write(0, 8192, 10))
		p.runUntilIdle()
		p.outcomes(1, OutcomeBufferOverflow, OutcomeCanceled)
		p.outcomes(0, OutcomeSuccess, OutcomeRemoteError, OutcomeCanceled)
		if !p.all(1, 0, 6000, 0) {
			t.Error("something of the message was written")
		}
	}
}

func TestReceiveIntoMemoryThatMayNotBeWritten(t *testing.T) {
	p := newPair(t, 1408).connect()
	_, o := p.qp[1].PostReceive(0, []SGE{{Addr: p.reg[1].Base(), Len: 10, Token: p.reg[1].Token() ^ 1}}, 10)
	p.must(o)
	p.runUntilIdle()
	p.post(0, p.send(0, 10))
	p.runUntilIdle()
	p.outcomes(1, OutcomeAccessViolation)
	p.outcomes(0, OutcomeRemoteError)
}

func TestLocalFaultReachesThePeer(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(1, 0, 10)
	w := p.write(0, 0, 10)
	w.SGL[0].Token ^= 1
	p.post(0, p.write(0, 4096, 10))
	p.runUntilIdle()
	p.post(0, w)
	p.post(0, p.write(0, 0, 10))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess, OutcomeAccessViolation, OutcomeCanceled)
	p.outcomes(1, OutcomeCanceled)
	if p.ctr[1].State() != CtrLost {
		t.Error(p.ctr[1].State())
	}
}

func TestScatterGatherAndEmptyEntries(t *testing.T) {
	p := newPair(t, 1408).connect()
	base, token := p.reg[0].Base(), p.reg[0].Token()
	for i := range 3000 {
		p.reg[0].Bytes()[i] = byte(i)
	}
	sgl := []SGE{{Addr: base, Len: 0, Token: token}, {Addr: base + 5, Len: 1000, Token: token}, {Addr: base, Len: 0, Token: token}, {Addr: base + 1005, Len: 1900, Token: token}}
	p.post(0, &listed{SGL: sgl, Request: Request{Kind: KindSend, Length: 2900}})
	b := p.reg[1].Base()
	into := []SGE{{Addr: b, Len: 1, Token: p.reg[1].Token()}, {Addr: b + 10, Len: 0, Token: p.reg[1].Token()}, {Addr: b + 1, Len: 2000, Token: p.reg[1].Token()}, {Addr: b + 2001, Len: 5000, Token: p.reg[1].Token()}}
	_, o := p.qp[1].PostReceive(0, into, 7001)
	p.must(o)
	p.runUntilIdle()
	if r := p.result(1); r.Outcome != OutcomeSuccess || r.Bytes != 2900 {
		t.Fatalf("%+v", r)
	}
	if !slices.Equal(p.reg[1].Bytes()[:2900], p.reg[0].Bytes()[5:2905]) || p.reg[1].Bytes()[2900] != 0 {
		t.Fatal("wrong bytes")
	}
}

// A SEND fails for want of a receive only if the peer answers. If the peer is silent, the connection ends when the peer counts as
// dead.
func TestNoReceiveIsNotSaidOfASilentPeer(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.send(0, 10))
	p.runUntilIdle()
	p.link[1].mangle = func([]byte) bool { return false }
	p.pass(noReceive + time.Second)
	p.outcomes(0)
	p.pass(20 * time.Second)
	p.outcomes(0, OutcomeIOTimeout)
}

// The time limit for a missing receive does not run while the peer is silent: a program that was stopped can post a receive only
// when it continues.
func TestTimeOfASilentPeerIsNoTimeWithoutAReceive(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.send(0, 10))
	p.pass(100 * time.Millisecond)
	p.link[1].mangle = func([]byte) bool { return false }
	p.pass(3 * time.Second)
	p.link[1].mangle = nil
	p.pass(time.Second) // the peer answers again, and its program does something else first
	p.outcomes(0)
	p.receive(1, 0, 10)
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
	p.post(0, p.send(0, 10)) // while the peer answers, a missing receive counts as usual
	p.pass(1990 * time.Millisecond)
	p.outcomes(0)
	p.pass(100 * time.Millisecond)
	p.outcomes(0, OutcomeIOTimeout)
}
