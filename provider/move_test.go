package provider

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// queue returns the link of one queue of a side.
func (p *pair) queue(side, i int) *pipe {
	if i == 0 {
		return p.link[side]
	}
	return p.more[side][i-1].link.(*pipe)
}

// landOn delivers all packets of a side to the queue that to returns.
func (p *pair) landOn(side int, to func() int) {
	for i := range 1 + len(p.more[side]) {
		p.queue(1-side, i).land = func() *pipe { return p.queue(side, to()) }
	}
}

func always(i int) func() int { return func() int { return i } }

// homeOf returns the index of the engine that has a side's connection.
func (p *pair) homeOf(side int) int {
	p.tb.Helper()
	e := p.qp[side].home.Load()
	c := p.qp[side].conn
	if e == nil || c.home.Load() != e || c.engine != e || p.ctr[side].home.Load() != e || p.ctr[side].engine != e {
		p.tb.Fatalf("side %d: connection, connector and queue pair are not in one place", side)
	}
	return e.index
}

// stats sums the counters of a side's engines.
func (p *pair) stats(side int) Stats {
	s := p.eng[side].Stats()
	for _, e := range p.more[side] {
		s.Add(e.Stats())
	}
	return s
}

// balanced checks that every frame is back at the queue it came from.
func (p *pair) balanced() {
	p.tb.Helper()
	for side := range 2 {
		for i := range 1 + len(p.more[side]) {
			l := p.queue(side, i)
			seen := map[uint64]bool{}
			for _, id := range l.rxFree {
				seen[id] = true
			}
			if len(seen) != pipeFrames || len(l.rxFree) != pipeFrames {
				p.tb.Errorf("side %d, queue %d: %d of %d receive frames are back, %d different ones", side, i, len(l.rxFree), pipeFrames, len(seen))
			}
		}
	}
}

// move performs a Write, a Send and a Read and checks the data.
func (p *pair) move(round int) {
	p.tb.Helper()
	const n = 5000
	p.fill(0, 0, n, byte(round))
	p.receive(1, n, n)
	p.post(0, p.write(0, 0, n))
	p.post(0, p.send(0, n))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
	p.fill(0, 0, n, 0)
	p.post(0, p.read(0, n))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	if !p.all(1, 0, 2*n, byte(round)) || !p.all(0, 0, n, byte(round)) {
		p.tb.Fatalf("round %d: the bytes are not those that were sent", round)
	}
}

// If a connection's packets arrive on another queue, it moves there with its connector and its queue pair (I11).
func TestConnectionFollowsItsPackets(t *testing.T) {
	p := newQueuesPair(t, 1472, 4)
	p.landOn(1, always(2))
	p.connect()
	for round := 1; round < 20; round++ {
		p.move(round)
	}
	if home := p.homeOf(1); home != 2 {
		t.Errorf("packets land on queue 2, and their connection lives on %d", home)
	}
	relayed := p.stats(1).Relayed
	for round := range 20 {
		p.move(round)
	}
	if s := p.stats(1); s.Relayed != relayed || s.Moved == 0 {
		t.Errorf("%d packets went astray after the connection had followed them (%d moves)", s.Relayed-relayed, s.Moved)
	}
	p.landOn(1, always(3)) // the NIC's hash has changed
	for round := range 40 {
		p.move(round)
	}
	if home := p.homeOf(1); home != 3 {
		t.Errorf("packets land on queue 3 now, and their connection lives on %d", home)
	}
	p.disconnect()
}

// disconnect ends the connection from both sides and checks that nothing of it is left.
func (p *pair) disconnect() {
	p.tb.Helper()
	var first, second promise
	p.must(p.ctr[0].Disconnect(first.finish))
	p.runUntilIdle()
	p.must(p.ctr[1].Disconnect(second.finish))
	p.runUntilIdle()
	first.must(p.tb, OutcomeSuccess)
	second.must(p.tb, OutcomeSuccess)
	p.gone()
}

// gone checks that no engine keeps anything of a connection after it has lingered.
func (p *pair) gone() {
	p.tb.Helper()
	p.pass(20 * time.Second)
	for side := range 2 {
		s, use := p.stats(side), p.eng[side].PoolUse()
		for _, e := range p.more[side] {
			more := e.PoolUse()
			use = PoolUse{use.Traffic + more.Traffic, use.Numbers + more.Numbers}
		}
		lead := p.eng[side]
		if s.Connections != 0 || use != (PoolUse{}) || lead.directory.peers.Len()+lead.directory.tuples.Len()+lead.guard.Sources.Len() != 0 || s.IllegalTransitions != 0 {
			p.tb.Errorf("side %d keeps %d connections, %+v, %d peers, %d tuples, %d sources; %d illegal transitions", side,
				s.Connections, use, lead.directory.peers.Len(), lead.directory.tuples.Len(), lead.guard.Sources.Len(), s.IllegalTransitions)
		}
	}
	p.balanced()
}

func TestActiveConnectionsSpread(t *testing.T) {
	seen := map[int]bool{}
	for range 12 {
		p := newQueuesPair(t, 1472, 4)
		p.eng[0].rng = rand.New(rand.NewPCG(rand.Uint64(), 0))
		p.connect()
		for round := range 12 {
			p.move(round)
		}
		home := p.homeOf(0)
		if other := p.homeOf(1); other != home {
			t.Errorf("one end lives on queue %d, the other on %d", home, other)
		}
		seen[home] = true
		p.disconnect()
	}
	if len(seen) < 2 {
		t.Error("all of 12 connections live on one queue")
	}
}

// TestScatteredPackets delivers every packet to a random queue, so that packets and connections move between engines all the time.
func TestScatteredPackets(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := newQueuesPair(t, 1472, 5)
		for side := range 2 {
			p.landOn(side, func() int { return rng.IntN(5) })
			if seed%2 == 1 {
				for i := range 5 {
					p.queue(side, i).loseNth = 17
				}
			}
		}
		p.connect()
		for round := range 30 {
			const n = 5000
			p.fill(0, 0, n, byte(round))
			p.receive(1, n, n)
			p.post(0, p.write(0, 0, n))
			p.post(0, p.send(0, n))
			if rng.IntN(3) == 0 {
				p.conn(0).moveTo(p.more[0][rng.IntN(4)])
			}
			for range 50 {
				p.pass(10 * time.Millisecond)
				if p.qp[0].Outstanding() == 0 {
					break
				}
			}
			p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
			p.outcomes(1, OutcomeSuccess)
			if !p.all(1, 0, 2*n, byte(round)) {
				t.Fatalf("seed %d, round %d: wrong bytes", seed, round)
			}
		}
		if p.stats(0).Moved+p.stats(1).Moved == 0 || p.stats(1).Relayed == 0 {
			t.Error("nothing moved")
		}
		p.disconnect()
	}
}

// TestStrangersAskForConnectionsElsewhere: REQ and RST arrive at the leader (I12), and their connection belongs to another engine.
func TestStrangersAskForConnectionsElsewhere(t *testing.T) {
	p := newQueuesPair(t, 1472, 3)
	var req []byte
	p.queue(1, 0).mangle = func(b []byte) bool {
		if !sequenced(b) && opcode(b) == wire.CtlREQ {
			req = append([]byte(nil), b...)
		}
		return true
	}
	p.landOn(1, always(1))
	p.queue(1, 1).mangle = p.queue(1, 0).mangle
	p.connect()
	for round := range 20 {
		p.move(round)
	}
	if p.homeOf(1) != 1 || req == nil {
		t.Fatal("the connection is not where this test wants it")
	}
	established := p.stats(1).Established
	from := wire.Endpoint{IP: pairIP[0], Port: p.conn(0).identity.local.Port}
	p.queue(1, 0).deliver(&TxPacket{N: 1, Len: len(req), Frags: [MaxFrags]Frag{{Data: req}}}, from, wire.Endpoint{IP: pairIP[1], Port: p.eng[1].cfg.UDPPort})
	p.runUntilIdle()
	if s := p.stats(1); s.Established != established || s.Connections != 1 {
		t.Errorf("a REQ that came again made another connection: %+v", s)
	}
	p.move(21)
	// The peer loses its state and answers the next packet with RST.
	for c := range p.eng[0].group.conns.all {
		c.engine.round.leave(c)
		c.engine.acks.leave(c)
		c.engine.timers.deadlines.Set(c.identity.slot, clock.Never)
		p.eng[0].group.conns.put(c.identity.slot, nil)
	}
	var ended promise
	if _, o := p.ctr[1].NotifyDisconnect(ended.finish); o != OutcomeSuccess {
		t.Fatal(o)
	}
	p.post(1, p.write(1, 0, 100))
	p.pass(time.Second)
	ended.must(t, OutcomeSuccess)
	p.outcomes(1, OutcomeCanceled)
	if p.ctr[1].State() != CtrLost {
		t.Errorf("after the peer's RST the connector is %v", p.ctr[1].State())
	}
}

// TestOwnWithoutShards calls Own for a connection that is moving between engines. No shard runs the engines, so the caller runs
// them.
func TestOwnWithoutShards(t *testing.T) {
	p := newQueuesPair(t, 1472, 2)
	p.landOn(1, always(0))
	p.connect()
	p.move(1)
	to := p.more[1][0]
	p.conn(1).moveTo(to)
	p.eng[1].Run(p.now)
	if p.qp[1].home.Load() != nil || !to.Called() || p.eng[1].Called() {
		t.Fatal("the connection is not on its way")
	}
	var owners []*Engine
	p.ctr[1].Own(func(e *Engine) { owners = append(owners, e) })
	p.qp[1].Own(func(e *Engine) { owners = append(owners, e) })
	if len(owners) != 2 || owners[0] != to || owners[1] != to {
		t.Errorf("owned by %v", owners)
	}
	p.landOn(1, always(1))
	p.move(2)
	p.disconnect()
}

// TestEndInTheTurnOfAMove: the packet that makes a connection of the leader move arrives in the same poll as its end. The
// connection stays, because only the leader frees connections.
func TestEndInTheTurnOfAMove(t *testing.T) {
	p := newQueuesPair(t, 1472, 2)
	p.landOn(1, always(0))
	p.connect()
	p.move(1)
	if p.homeOf(1) != 0 {
		t.Fatal("the connection is not where this test wants it")
	}
	c := p.conn(1)
	c.moveTo(p.more[1][0])
	p.ctr[1].Close()
	p.runUntilIdle()
	if c.phase != phaseLingering || c.home.Load() != p.eng[1] {
		t.Errorf("the connection is %v, and at home on engine %d", c.phase, c.engine.index)
	}
	p.gone()
	for side := range 2 {
		if n := p.eng[side].Stats().Connections; n != 0 {
			t.Errorf("side %d: the leader has %d connections", side, int64(n))
		}
	}
}

func TestShutdownWithConnectionsElsewhere(t *testing.T) {
	p := newQueuesPair(t, 1472, 3)
	p.landOn(1, always(2))
	p.connect()
	for round := range 20 {
		p.move(round)
	}
	var ended, lost promise
	if _, o := p.ctr[1].NotifyDisconnect(ended.finish); o != OutcomeSuccess {
		t.Fatal(o)
	}
	if _, o := p.ctr[0].NotifyDisconnect(lost.finish); o != OutcomeSuccess {
		t.Fatal(o)
	}
	p.receive(1, 0, 100)
	for i := range p.more[1] {
		p.more[1][len(p.more[1])-1-i].Shutdown()
	}
	p.eng[1].Shutdown()
	p.runUntilIdle()
	ended.must(t, OutcomeDeviceRemoved)
	lost.must(t, OutcomeSuccess)
	p.outcomes(1, OutcomeCanceled)
	if n := len(p.eng[1].group.qps); n != 0 {
		t.Errorf("%d queue pairs are left", n)
	}
	if !p.eng[1].directory.ports.Empty() {
		t.Errorf("ports are left: %v", p.eng[1].directory.ports)
	}
}

// An engine forwards a packet and its connection arrives there meanwhile, so the packet comes back. It counts once.
func TestPacketThatGoesRoundCountsOnce(t *testing.T) {
	p := newQueuesPair(t, 1472, 2)
	p.connect()
	p.move(1)
	home := p.homeOf(1)
	p.landOn(1, always(1-home))
	engines := append([]*Engine{p.eng[1]}, p.more[1]...)
	arrived := func() (n uint64) { return engines[0].Stats().PacketsIn + engines[1].Stats().PacketsIn }
	before, delivered := arrived(), uint64(0)
	p.queue(1, 1-home).mangle = func([]byte) bool { delivered++; return true }
	p.post(0, p.write(0, 0, 100))
	for _, e := range append([]*Engine{p.eng[0]}, p.more[0]...) {
		e.Run(p.now)
	}
	engines[1-home].Run(p.now) // forwards the packet
	packets, _ := engines[home].inbox.open()
	if len(packets) != 1 || delivered != 1 {
		t.Fatalf("%d packets handed on of %d", len(packets), delivered)
	}
	engines[1-home].inbox.Hand(slices.Clone(packets))
	engines[1-home].inbox.Alert()
	p.runUntilIdle()
	if n := arrived() - before; n != delivered {
		t.Errorf("%d packets arrived, %d are counted", delivered, n)
	}
	p.outcomes(0, OutcomeSuccess)
	p.disconnect()
}

func TestRelayIsBounded(t *testing.T) {
	p := newQueuesPair(t, 1472, 2)
	p.connect()
	p.move(1)
	home := p.homeOf(1)
	p.landOn(1, always(1-home))
	engines := append([]*Engine{p.eng[1]}, p.more[1]...)
	var packet TxPacket
	p.queue(1, 1-home).mangle = func(b []byte) bool {
		packet = TxPacket{N: 1, Len: len(b), Frags: [MaxFrags]Frag{{Data: append([]byte(nil), b...)}}}
		return true
	}
	p.post(0, p.write(0, 0, 100))
	p.runUntilIdle()
	from := wire.Endpoint{IP: pairIP[0], Port: p.conn(0).identity.local.Port}
	for range 2 * inboxPackets { // the engine that has the connection does not run
		p.queue(1, 1-home).deliver(&packet, from, wire.Endpoint{IP: pairIP[1], Port: p.eng[1].cfg.UDPPort})
		engines[1-home].Run(p.now)
	}
	if n := engines[1-home].stats.Drops[wire.DropWrongQueue]; n != inboxPackets {
		t.Errorf("%d packets dropped, want %d", n, inboxPackets)
	}
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.disconnect()
}

// A connection may be moving to another engine when the engines shut down one after another. It ends properly, wherever it is when
// its engine shuts down.
func TestShutdownDuringAMove(t *testing.T) {
	for name, arrives := range map[string]bool{"on the way": false, "arrived": true} {
		t.Run(name, func(t *testing.T) {
			p := newQueuesPair(t, 1472, 2)
			p.landOn(1, always(0))
			p.connect()
			p.move(1)
			var ended, lost promise
			if _, o := p.ctr[1].NotifyDisconnect(ended.finish); o != OutcomeSuccess {
				t.Fatal(o)
			}
			if _, o := p.ctr[0].NotifyDisconnect(lost.finish); o != OutcomeSuccess {
				t.Fatal(o)
			}
			p.receive(1, 0, 100)
			p.more[1][0].Shutdown()
			p.conn(1).moveTo(p.more[1][0])
			p.eng[1].Run(p.now)
			if arrives {
				p.more[1][0].Run(p.now)
			}
			p.eng[1].Shutdown()
			p.runUntilIdle()
			ended.must(t, OutcomeDeviceRemoved)
			lost.must(t, OutcomeSuccess)
			p.outcomes(1, OutcomeCanceled)
		})
	}
}

// moveFrom delivers the packets of side 0 to the other of two engines until the connection has left for it.
func (p *pair) moveFrom(home int) {
	p.tb.Helper()
	p.landOn(0, always(1-home))
	for round := 0; p.homeOf(0) == home; round++ {
		if round == 100 {
			p.tb.Fatal("the connection does not follow its packets")
		}
		p.move(round)
	}
}
