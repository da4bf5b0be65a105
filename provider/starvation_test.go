package provider

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/wire"
)

// commons is a pair whose side 1 has several queue pairs on one shared receive queue.
type commons struct {
	*pair
	srq   *SharedReceiveQueue
	qps   [2][]*QP
	ctrs  [2][]*Connector
	posts uint64 // receives posted; each has its number as context and 8 KiB of memory of its own
}

const commonBuf = 8192

func newCommons(t testing.TB, conns, depth int) *commons {
	return newCommonsOn(newPair(t, 1408), conns, depth, func(int) {})
}

// newCommonsOn makes the connections over a pair. before is called before each of them.
func newCommonsOn(over *pair, conns, depth int, before func(i int)) *commons {
	p := &commons{pair: over, srq: NewSharedReceiveQueue(depth, 4, 0)}
	for i := range conns {
		p.qp[0] = p.eng[0].NewQP(QPConfig{
			Context: uint64(i), ReceiveCQ: p.cq[0], InitiatorCQ: p.cq[0], ReceiveDepth: 16, InitiatorDepth: 128,
			MaxReceiveSGE: 4, MaxInitiatorSGE: 4, InlineSize: 64,
		})
		p.qp[1] = p.eng[1].NewQP(QPConfig{
			Context: uint64(i), ReceiveCQ: p.cq[1], InitiatorCQ: p.cq[1], Shared: p.srq, InitiatorDepth: 16,
			MaxInitiatorSGE: 4, InlineSize: 64,
		})
		before(i)
		p.connect()
		for side := range 2 {
			p.qps[side] = append(p.qps[side], p.qp[side])
			p.ctrs[side] = append(p.ctrs[side], p.ctr[side])
		}
	}
	return p
}

// use selects the connection that post and other helpers use.
func (p *commons) use(i int) {
	for side := range 2 {
		p.qp[side], p.ctr[side] = p.qps[side][i], p.ctrs[side][i]
	}
}

// offer posts n receives to the shared queue.
func (p *commons) offer(n int) {
	p.tb.Helper()
	for range n {
		off := uint32(p.posts % 256 * commonBuf)
		_, o := p.srq.Post(p.posts, p.sge(1, off, commonBuf), commonBuf)
		p.must(o)
		p.posts++
	}
}

// say sends n bytes of value v on the connection with this number.
func (p *commons) say(i int, v byte, n uint32) {
	p.tb.Helper()
	p.use(i)
	off := uint32(v) * commonBuf
	p.fill(0, off, n, v)
	p.post(0, &listed{SGL: p.sge(0, off, n), Request: Request{Kind: KindSend, Length: n}})
}

// heard polls the results of side 1, which must be these messages, on whatever connections they arrived.
func (p *commons) heard(want ...byte) {
	p.tb.Helper()
	rs := p.results(1)
	if len(rs) != len(want) {
		p.tb.Fatalf("%d messages instead of %d: %+v", len(rs), len(want), rs)
	}
	for i, r := range rs {
		off := uint32(r.RequestContext % 256 * commonBuf)
		if r.Outcome != OutcomeSuccess || r.Kind != KindReceive || !p.all(1, off, r.Bytes, want[i]) {
			p.tb.Fatalf("message %d of %d: %+v, first byte %d", i, len(want), r, p.reg[1].Bytes()[off])
		}
	}
}

// trust sets the receive limit of the current connection's sender to n: it was told of n receives that others have taken since.
func (p *commons) trust(n uint32) { p.conn(0).leaveIdle(); p.conn(0).requestNumbers.sendLimit = n }

// calm fails the test if a connection mistook a missing receive for loss.
func (p *commons) calm() {
	p.tb.Helper()
	if s := p.eng[0].Stats(); s.Timeouts != 0 || s.PacketsLost != 0 || s.Probes != 0 {
		p.tb.Errorf("%d time-outs, %d packets taken for lost, %d probes", s.Timeouts, s.PacketsLost, s.Probes)
	}
}

// A receive is offered several times to a silent peer. If the offers to its source have reached their limit, it is offered once.
func TestOffersToASourceAreBounded(t *testing.T) {
	offers := func(spent bool) (n int) {
		p := newCommons(t, 1, 8)
		p.say(0, 1, 10)
		p.runUntilIdle() // the SEND found no receive, and is blocked
		if spent {
			later := p.now.Add(time.Second) // the limit has not recovered before
			for p.eng[1].guard.TakeRepeat(guard.SourceOf(p.conn(1).identity.remote.IP), later) {
			}
		}
		p.link[1].mangle = func([]byte) bool { return false }
		p.link[0].mangle = func([]byte) bool {
			n++
			return false
		}
		p.offer(1)
		p.pass(10 * time.Millisecond)
		return n
	}
	if n := offers(false); n < 4 {
		t.Errorf("offered %d times", n)
	}
	if n := offers(true); n != 1 {
		t.Errorf("offered %d times to a source that has reached its limit", n)
	}
}

func TestSharedReceiveQueueServesManyQueuePairs(t *testing.T) {
	const conns, each = 8, 8
	p := newCommons(t, conns, conns*each)
	p.offer(conns * each)
	for v := range each {
		for i := range conns {
			p.say(i, byte(v), 3000)
		}
	}
	p.runUntilIdle()
	next := [conns]byte{}
	for i, r := range p.results(1) {
		v := &next[r.QPContext]
		if r.Outcome != OutcomeSuccess || r.Bytes != 3000 || !p.all(1, uint32(r.RequestContext)*commonBuf, 3000, *v) {
			t.Fatalf("result %d: %+v", i, r)
		}
		*v++
	}
	for i, n := range next {
		if n != each {
			t.Errorf("connection %d: %d messages", i, n)
		}
	}
	if p.srq.Posted() != 0 {
		t.Errorf("%d receives are left", p.srq.Posted())
	}
	p.calm()
}

// An empty shared receive queue never ends a connection (ND specification 11.3). The sender does not retry meanwhile: it sends only
// keep-alives.
func TestSendWaitsOnAnEmptySharedQueueForAsLongAsThePeerLives(t *testing.T) {
	p := newCommons(t, 1, 16)
	window := p.conn(0).traffic.sent.cc.Window
	for v := range 5 {
		p.say(0, byte(v), 100)
	}
	p.runUntilIdle()
	before := p.eng[0].Stats()
	p.pass(60 * time.Second)
	after := p.eng[0].Stats()
	if n := after.PacketsOut - before.PacketsOut; n > 70 {
		t.Errorf("%d packets in a minute of waiting", n)
	}
	if after.Retransmits != before.Retransmits || after.Pauses == 0 {
		t.Errorf("%d packets were retransmitted for nothing, %d pauses", after.Retransmits-before.Retransmits, after.Pauses)
	}
	p.outcomes(0)
	at := p.now
	p.offer(5)
	p.runUntilIdle()
	if d := p.now.Sub(at); d > 50*time.Microsecond {
		t.Errorf("going on took %v", d)
	}
	p.heard(0, 1, 2, 3, 4)
	p.outcomes(0, 0, 0, 0, 0, 0)
	p.calm()
	if w := p.conn(0).traffic.sent.cc.Window; w < window {
		t.Errorf("the window is %d instead of %d", w, window)
	}
}

// A packet holds several operations, and one of them is a SEND without a receive. The operations before the SEND are executed once.
func TestStarvationInTheMiddleOfAPacket(t *testing.T) {
	p := newCommons(t, 1, 16)
	p.offer(1)
	p.trust(10)
	p.fill(0, 0, 64, 7)
	defer1 := func(r *listed) *listed { r.Flags |= FlagDefer; return r }
	p.post(0, defer1(p.write(0, 0, 64)))
	p.post(0, defer1(p.send(0, 64)))
	p.post(0, defer1(p.send(0, 64)))
	p.post(0, p.write(0, 1<<20, 64))
	p.fill(0, 1<<20, 64, 8)
	p.runUntilIdle()
	p.heard(7)
	if !p.all(1, 1<<20, 64, 0) {
		t.Fatal("the last Write overtook a Send that waits")
	}
	p.fill(1, 0, 64, 9) // the application reuses the memory of completed requests
	p.offer(1)
	p.runUntilIdle()
	p.heard(7)
	if !p.all(1, 0, 64, 9) || !p.all(1, 1<<20, 64, 8) {
		t.Fatal("the first Write was executed twice, or the last one not at all")
	}
	p.outcomes(0, 0, 0, 0, 0)
}

func TestReadsAreAnsweredWhileSendsWait(t *testing.T) {
	p := newCommons(t, 1, 16)
	p.say(0, 1, 100)
	p.runUntilIdle()
	r := p.write(1, 0, 20000)
	r.Kind = KindRead
	p.post(1, r)
	p.runUntilIdle()
	p.outcomes(1, OutcomeSuccess)
	p.outcomes(0)
	p.offer(1)
	p.runUntilIdle()
	p.heard(1)
}

// A connection without a receive holds neither receive frames nor memory of the engine, because it may wait for ever and other
// connections need them.
func TestStarvedConnectionHoldsNothing(t *testing.T) {
	p := newCommons(t, 1, 64)
	p.trust(100)
	p.loseFirst(1, 1, wire.OpSend) // the other packets wait behind the gap
	for v := range 10 {
		p.say(0, byte(v), 1000)
	}
	p.pass(time.Second)
	p.conn(0).traffic.resume() // as if the sender had not received RNR: these packets arrive while the connection waits
	p.trust(100)
	for v := 10; v < 20; v++ {
		p.say(0, byte(v), 1000)
	}
	p.runUntilIdle()
	if used, free := p.eng[1].store.Used(), len(p.link[1].rxFree); used != 0 || free != pipeFrames || p.conn(1).receives.Wait.State() != credit.Starved {
		t.Fatalf("%d bytes wait, %d frames are free, state %d", used, free, p.conn(1).receives.Wait.State())
	}
	want, before := []byte{}, p.eng[0].Stats().Retransmits
	for v := range 20 {
		p.offer(1)
		p.runUntilIdle()
		p.pass(10 * time.Millisecond)
		want = append(want, byte(v))
	}
	p.heard(want...)
	if n := p.eng[0].Stats().Retransmits - before; n > 50 {
		t.Errorf("%d packets retransmitted for 20 receives", n)
	}
}

// Receives come late while the network loses, duplicates and reorders packets.
func TestStarvationUnderLossDuplicationAndReordering(t *testing.T) {
	for seed := range uint64(20) {
		const conns, each = 4, 20
		p := newCommons(t, conns, 8)
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, l := range p.link {
			l.mangle = func([]byte) bool { return rng.IntN(8) > 0 }
			l.disturb = func() bool {
				a, b := &l.inbox[(l.head+l.count-1)%len(l.inbox)], &l.inbox[(l.head+rng.IntN(l.count))%len(l.inbox)]
				*a, *b = *b, *a
				return rng.IntN(8) == 0
			}
		}
		for v := range each {
			for i := range conns {
				p.say(i, byte(v), 1+uint32(rng.IntN(commonBuf)))
			}
		}
		next := [conns]byte{}
		for done := 0; done < conns*each; {
			p.pass(time.Duration(rng.IntN(int(3 * time.Millisecond))))
			for n := rng.IntN(4); n > 0 && p.srq.Posted() < 8 && p.posts < uint64(conns*each); n-- {
				p.offer(1)
			}
			for _, r := range p.results(1) {
				if r.Outcome != OutcomeSuccess || !p.all(1, uint32(r.RequestContext)*commonBuf, r.Bytes, next[r.QPContext]) {
					t.Fatalf("seed %d: %+v, want message %d", seed, r, next[r.QPContext])
				}
				next[r.QPContext]++
				done++
			}
			if p.now.Sub(0) > 10*time.Minute {
				t.Fatalf("seed %d: stuck with %d messages", seed, done)
			}
		}
		p.pass(5 * time.Second)
		if n := len(p.results(0)); n != conns*each {
			t.Errorf("seed %d: %d requests done", seed, n)
		}
	}
}

// If the ACK that begins a wait for a receive is lost, it is repeated, and so is the ACK that ends the wait.
func TestLostAcknowledgementsOfAWait(t *testing.T) {
	p := newCommons(t, 1, 8)
	p.loseFirst(0, 1, blocksAlone)
	p.say(0, 1, 10)
	p.pass(20 * time.Millisecond)
	if !p.conn(0).traffic.sent.paused {
		t.Fatal("the sender does not know")
	}
	p.loseFirst(0, 2, blocksAlone)
	p.offer(1)
	p.pass(200 * time.Millisecond) // two time-outs of a new connection
	p.heard(1)
	p.outcomes(0, OutcomeSuccess)
}

func TestOneReceiveMakesOnePeerSendAgain(t *testing.T) {
	const conns = 6
	p := newCommons(t, conns, 8)
	for i := range conns {
		p.say(i, byte(i), 10)
		p.runUntilIdle()
	}
	for i := range conns {
		before := p.eng[0].Stats().Retransmits
		p.offer(1)
		p.runUntilIdle()
		p.heard(byte(i)) // the first one to wait is served first
		if n := p.eng[0].Stats().Retransmits - before; n != 1 {
			t.Errorf("%d packets were retransmitted for one receive", n)
		}
	}
	p.calm()
}

// The queue pairs of one shared receive queue belong to several engines. A receive reaches the first waiting queue pair on any of
// them.
func TestSharedReceiveQueueOfSeveralEngines(t *testing.T) {
	const conns = 4
	over := newQueuesPair(t, 1408, conns)
	p := newCommonsOn(over, conns, 8, func(i int) { over.landOn(1, always(i)) })
	for i := range conns {
		p.use(i)
		if home := p.homeOf(1); home != i {
			t.Fatalf("connection %d lives on engine %d", i, home)
		}
		p.say(i, byte(i), 3000)
		p.runUntilIdle()
	}
	p.offer(1)
	p.runUntilIdle()
	p.heard(0)
	p.offer(1) // promised to connection 1, whose queue pair goes before its engine runs
	p.qps[1][1].Release()
	p.runUntilIdle()
	p.heard(2)
	for i := range 40 { // more than it takes for a connection to move to another queue
		p.landOn(1, always(i/10))
		p.offer(1)
		p.say(0, byte(10+i), 3000)
		p.runUntilIdle()
		if rs := p.results(1); len(rs) != 1 || rs[0].Outcome != OutcomeSuccess {
			t.Fatalf("round %d: %+v", i, rs)
		}
	}
	p.offer(1)
	p.runUntilIdle()
	if p.srq.first != nil || p.srq.promised != 0 {
		t.Errorf("a queue pair waits although %d receives are posted", p.srq.Posted())
	}
}

// If the pool of receives is always too small, at most one packet is sent for nothing for each message, and nothing counts as loss.
func TestScarceReceives(t *testing.T) {
	const conns, each, depth = 6, 50, 4
	p := newCommons(t, conns, depth)
	p.offer(depth)
	for v := range each {
		for i := range conns {
			p.say(i, byte(v), 200)
		}
	}
	for done := 0; done < conns*each; {
		p.turn()
		for range p.results(1) {
			done++
			p.offer(1)
		}
	}
	p.runUntilIdle()
	p.calm()
	s := p.eng[0].Stats()
	if s.Retransmits > 2*conns*each {
		t.Errorf("%d packets retransmitted for %d messages", s.Retransmits, conns*each)
	}
	t.Logf("%d packets, %d sent again, %d pauses", s.PacketsOut, s.Retransmits, s.Pauses)
}

func TestSharedReceiveDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := newCommons(t, 2, 8)
	s, into := p.send(0, 3000), p.sge(1, 0, 4000)
	var rs [64]Result
	for name, late := range map[string]bool{"receives first": false, "receives late": true} {
		t.Run(name, func(t *testing.T) {
			allocates(t, p.pair, func() {
				for i := range 2 {
					p.use(i)
					p.post(0, s)
				}
				if late {
					p.runUntilIdle()
				}
				for range 2 {
					_, _ = p.srq.Post(1, into, 4000)
				}
				p.runUntilIdle()
				p.drain(rs[:])
			})
		})
	}
}
