package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/wire"
)

// infos returns what the engine of a side reports about its connections.
func (p *pair) infos(side int) (all []ConnInfo) {
	p.eng[side].now = p.now
	var dst [3]ConnInfo
	for first, done := 0, false; !done; {
		var n int
		n, first, done = p.eng[side].Connections(dst[:], first)
		all = append(all, dst[:n]...)
	}
	return all
}

func (p *pair) info(side int) ConnInfo {
	p.tb.Helper()
	all := p.infos(side)
	if len(all) != 1 {
		p.tb.Fatalf("%d connections", len(all))
	}
	return all[0]
}

// TestEveryLimitIsSeen provokes each limit for a second. The provoked limit must have the largest share of the second, and all
// shares must sum up to the connection's age.
func TestEveryLimitIsSeen(t *testing.T) {
	silent := func(p *pair) { p.link[1].mangle = func([]byte) bool { return false } }
	many := func(p *pair, r *listed) {
		for range 100 {
			p.post(0, r)
		}
	}
	for want, provoke := range map[Limit]func(p *pair){
		LimitApplication: func(p *pair) { p.post(0, p.write(0, 0, 100)) },
		LimitReceive:     func(p *pair) { p.post(0, p.send(0, 100)) },
		LimitRead: func(p *pair) {
			p.loseFirst(0, 1<<30, wire.OpReadResp)
			many(p, p.read(0, 100))
		},
		LimitFabric: func(p *pair) { silent(p); many(p, p.write(0, 0, 20000)) },
		LimitEndpoint: func(p *pair) { // all packets report it; without any report, time-outs make the other window as small
			loaded := func([]byte) bool { p.conn(0).traffic.sent.cc.Load(p.now, 255, 0); return true }
			p.link[0].mangle = loaded
			for range 20 {
				p.now++
				loaded(nil)
			}
			many(p, p.write(0, 0, 20000))
		},
		LimitRing: func(p *pair) {
			p.eng[0].out, p.link[0].txFree = packet.NewOut(p.link[0]), nil
			many(p, p.write(0, 0, 100))
		},
	} {
		t.Run(want.String(), func(t *testing.T) {
			p := newPair(t, 1408).connect()
			before := p.info(0)
			provoke(p)
			for range 1000 {
				p.turn()
				p.now = p.now.Add(time.Millisecond)
			}
			p.turn()
			checkLimit(t, p, before, want)
		})
	}
}

// TestTheEnginesOwnTimeIsALimit: if no window is full, the connection's share of the poll limits it.
func TestTheEnginesOwnTimeIsALimit(t *testing.T) {
	p := newTunedPair(t, 8972, 1, Config{Control: ControlFixed}).connect()
	before := p.info(0)
	for range 16 {
		p.post(0, p.write(0, 0, 1<<20))
	}
	for range 50 {
		p.turn()
		p.now = p.now.Add(time.Millisecond / 10)
	}
	checkLimit(t, p, before, LimitCPU)
}

func checkLimit(t *testing.T, p *pair, before ConnInfo, want Limit) {
	t.Helper()
	i := p.info(0)
	most, sum := LimitApplication, time.Duration(0)
	var spent [NumLimits]time.Duration
	for l, d := range i.Limited {
		spent[l] = d - before.Limited[l]
		sum += d
		if spent[l] > spent[most] {
			most = Limit(l)
		}
	}
	if most != want || i.LimitedBy != want {
		t.Errorf("limited by %v, now by %v: %v", most, i.LimitedBy, spent)
	}
	if sum != i.Age {
		t.Errorf("shares sum up to %v of %v", sum, i.Age)
	}
	totals, all := p.eng[0].Stats().Limited, uint64(0)
	for l, us := range totals {
		all += us
		if d := time.Duration(us)*time.Microsecond - i.Limited[l]; d.Abs() > time.Microsecond {
			t.Errorf("the engine counts %v for %v, the connection %v", d, Limit(l), i.Limited[l])
		}
	}
	if d := time.Duration(all)*time.Microsecond - i.Age; d.Abs() > time.Microsecond {
		t.Errorf("the engine counts %d µs of %v", all, i.Age)
	}
}

// TestFencesAndWindowsOfReads: the reason why a request is blocked, in cases that a second of one limit does not show.
func TestFencesAndWindowsOfReads(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.loseFirst(0, 1<<30, wire.OpReadResp)
	p.post(0, p.read(0, 100))
	fenced := p.write(0, 0, 100)
	fenced.Flags |= FlagReadFence
	p.post(0, fenced)
	p.turn()
	if by := p.info(0).LimitedBy; by != LimitRead {
		t.Errorf("a fence counts as %v", by)
	}

	p = newPair(t, 1408).connect()
	p.loseFirst(0, 1<<30, wire.OpReadResp)
	p.post(0, p.read(0, 1<<20))
	p.post(0, p.read(0, 1<<20))
	p.turn()
	if by := p.info(0).LimitedBy; by != LimitFabric {
		t.Errorf("a READ for which the window has no room counts as %v", by)
	}

	p = newPair(t, 1408).connect()
	p.link[1].mangle = func([]byte) bool { return false }
	p.conn(0).peerWindow = 2000
	p.post(0, p.write(0, 0, 20000))
	p.turn()
	if by := p.info(0).LimitedBy; by != LimitEndpoint {
		t.Errorf("a peer that holds 2,000 bytes counts as %v", by)
	}
}

// TestSharesOutlastIdling: the shares of limits survive an idle period and a move to another engine.
func TestSharesOutlastIdling(t *testing.T) {
	p := newPair(t, 1408).connect()
	for round := range 3 {
		before := p.info(0).Limited[LimitReceive]
		p.post(0, p.send(0, 100))
		p.pass(time.Second)
		p.receive(1, 0, 100)
		p.makeIdle()
		i := p.info(0)
		if d := i.Limited[LimitReceive] - before; d < 900*time.Millisecond || d > 1100*time.Millisecond {
			t.Errorf("round %d: %v", round, d)
		}
		if !i.Resting || i.LimitedBy != LimitApplication || i.Latency.Wire != 0 {
			t.Errorf("round %d: %+v", round, i)
		}
	}
}

// TestLimitsOfEngines: a connection that moves, ends or is cut off leaves the totals of its engine, and its time so far stays
// counted.
func TestLimitsOfEngines(t *testing.T) {
	p := newQueuesPair(t, 1408, 2).connect()
	p.pass(time.Second)
	moved := p.eng[0].Stats().Moved
	to := p.more[0][0]
	if p.conn(0).engine == to {
		to = p.eng[0]
	}
	p.conn(0).moveTo(to)
	p.pass(time.Second)
	if p.conn(0).engine != to {
		t.Fatalf("it did not move (%d)", moved)
	}
	p.ctr[0].Close()
	p.pass(time.Minute)
	sum := uint64(0)
	for _, e := range append(p.more[0], p.eng[0]) {
		if e.limitTotals.Limited() != [NumLimits]uint64{} {
			t.Errorf("connections are left in the totals: %v", e.limitTotals.Limited())
		}
		for _, us := range e.Stats().Limited {
			sum += us
		}
	}
	if d := time.Duration(sum) * time.Microsecond; d < 2*time.Second || d > 3*time.Second {
		t.Errorf("%v of connection time", d)
	}
}

// TestSnapshotOfAConnection compares the snapshots of both sides of one connection with the work that was done.
func TestSnapshotOfAConnection(t *testing.T) {
	p := newPair(t, 1408).connect()
	began := [2]ConnInfo{p.info(0), p.info(1)} // some packets of the handshake belong to a connection on one side only
	p.receive(1, 0, 100)
	p.receive(1, 0, 100)
	p.post(0, p.send(0, 100))
	p.post(0, p.write(0, 0, 100000))
	p.pass(10 * time.Millisecond)
	a, b := p.info(0), p.info(1)
	if a.ID != b.PeerID || a.Local != b.Remote || a.Remote != b.Local || b.Local.Port != pairPort {
		t.Errorf("the two sides differ on their addresses: %+v, %+v", a, b)
	}
	if !a.Active || b.Active || a.State != "open" || a.Age < 10*time.Millisecond || a.Engine != 0 {
		t.Errorf("%+v", a)
	}
	there, arrived := a.BytesOut-began[0].BytesOut, b.BytesIn-began[1].BytesIn
	back, returned := b.BytesOut-began[1].BytesOut, a.BytesIn-began[0].BytesIn
	if there != arrived || there < 100100 || back != returned || back == 0 {
		t.Errorf("bytes: %d sent, %d arrived; %d back, %d arrived", there, arrived, back, returned)
	}
	if b.ReceiveDepth != 1 || a.InitiatorDepth != 0 || a.InFlight != 0 || a.Retransmits != 0 || a.PathMTU != 1408 {
		t.Errorf("queues: %+v, %+v", a, b)
	}
	if a.SmoothedRTT <= 0 || a.MinRTT > a.SmoothedRTT || a.Window < congestion.InitialWindow/a.PathMTU || a.FabricWindow < a.Window || a.EndpointWindow < a.Window {
		t.Errorf("path: %+v", a)
	}
	p.link[1].mangle = func([]byte) bool { return false }
	p.post(0, p.write(0, 0, 5000))
	p.turn()
	if a = p.info(0); a.InitiatorDepth != 1 || a.InFlight != 4 {
		t.Errorf("under way: %+v", a)
	}
	p.pass(time.Second)
	if a = p.info(0); a.Retransmits == 0 {
		t.Error("nothing was retransmitted")
	}
}

// TestSnapshotsOfManyConnections reads the snapshots in small batches. Each connection occurs exactly once.
func TestSnapshotsOfManyConnections(t *testing.T) {
	f := newFleet(t, 1000)
	seen := map[uint64]bool{}
	for _, i := range f.infos(0) {
		seen[i.ID] = true
	}
	if all := f.infos(0); len(all) != 1000 || len(seen) != 1000 {
		t.Errorf("%d, of which %d differ", len(all), len(seen))
	}
	var dst [8]ConnInfo
	if n := testing.AllocsPerRun(10, func() { f.eng[0].Connections(dst[:], 0) }); n != 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}
