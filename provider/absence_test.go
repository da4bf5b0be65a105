package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// A peer that is descheduled again and again is probed for nothing only the first time, not each time.
func TestPeerOffItsCoreIsAskedOnce(t *testing.T) {
	const away, times = 5 * time.Millisecond, 20
	p := newPair(t, 1408).connect()
	for range recovery.SettledAfter + 1 {
		p.post(0, p.write(0, 0, 64))
		p.pass(100 * time.Microsecond)
		p.outcomes(0, OutcomeSuccess)
	}
	before := p.eng[0].stats.Retransmits
	for range times {
		p.post(0, p.write(0, 0, 64))
		for range away / (100 * time.Microsecond) {
			p.now = p.now.Add(100 * time.Microsecond)
			p.eng[0].Run(p.now)
		}
		p.pass(time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
	}
	if n := p.eng[0].stats.Retransmits - before; n == 0 || n > times/4 {
		t.Errorf("%d packets were retransmitted to a peer that was descheduled %d times", n, times)
	}
	p.loseFirst(0, 1, 1)
	p.post(0, p.write(0, 0, 64))
	p.pass(50 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess) // the later retransmission timers still detect a loss
}

// hearAcks records the ACK blocks that side 0 receives.
func (p *pair) hearAcks() *[]wire.Ack {
	var told []wire.Ack
	p.link[0].mangle = func(b []byte) bool {
		if wire.BaseHeader(b).Flags()&wire.FlagAck != 0 {
			told = append(told, wire.Ack{})
			if _, d := wire.ParseAck(b[wire.BaseHeaderLen:], &told[len(told)-1]); d != wire.DropNone {
				p.tb.Error(d)
			}
		}
		return true
	}
	return &told
}

// Packets wait for a peer that is descheduled, and so do acknowledgements for a descheduled sender. If a side knows when packets
// arrived, its ACK block reports how long they waited, and the round trip does not include that time (PROTOCOL §3.5).
func TestWaitingAtTheEndsIsNoDelay(t *testing.T) {
	const onTheWay, away = 20 * time.Microsecond, 5 * time.Millisecond
	p := newPair(t, 1408).connect()
	p.eng[1].cfg.AckEvery = 8
	told := p.hearAcks()
	c := p.conn(0)
	for range 4 {
		*told = nil
		p.post(0, p.write(0, 0, 10*1344)) // more than AckEvery
		p.now = p.now.Add(time.Microsecond)
		p.link[1].stamp = p.now.Add(onTheWay)
		p.eng[0].Run(p.now)
		p.eng[0].Run(p.now) // the engine was not interrupted while it sent
		p.now = p.now.Add(onTheWay + away)
		p.eng[1].turns.Watch(false)
		p.link[0].stamp = p.now.Add(onTheWay)
		p.eng[1].Run(p.now)
		p.now = p.now.Add(onTheWay + away)
		p.eng[0].Run(p.now)
		if len(*told) == 0 {
			t.Fatal("nothing is acknowledged at once")
		}
		for _, a := range *told {
			if held := time.Duration(a.Delay) * wire.AckDelayUnit; held > away || held < away-wire.AckDelayUnit || a.Flags&wire.AckAway != 0 {
				t.Errorf("the ACK block reports a delay of %v, with flags %#x; packets waited %v", held, a.Flags, away)
			}
		}
		p.link[0].stamp, p.link[1].stamp = 0, 0
		p.now = p.now.Add(time.Second)
		p.outcomes(0, OutcomeSuccess)
	}
	if d := c.traffic.sent.cc.Delay(); d < 2*onTheWay || d > 2*onTheWay+wire.AckDelayUnit {
		t.Errorf("a round trip of %v; packets were on their way for %v", d, 2*onTheWay)
	}
}

// The round trip does not include the time that a peer spends sending before it acknowledges. A packet that arrived during that
// time is a sample only if its arrival time is known.
func TestPeersThatSend(t *testing.T) {
	for seed := range uint64(5) {
		for _, stamps := range []bool{false, true} {
			testPeerThatSends(t, seed, stamps)
		}
	}
}

func testPeerThatSends(t *testing.T, seed uint64, stamps bool) {
	const takes = 100 * time.Microsecond // the peer sends one batch
	p := newSeededPair(t, seed, 1408, 1, Config{Runs: true}).connect().warmedUp()
	// The loop avoids a packet number that blocksEvery divides: that packet of the batch would carry the acknowledgement before the
	// others have left.
	for p.conn(1).traffic.sent.packets.Next()%blocksEvery != 1 {
		p.conn(1).traffic.sendPing()
		p.turn()
	}
	p.fixed(1000)
	e := p.eng[1]
	e.copies = true
	p.post(1, p.write(1, 0, 1<<20))
	p.eng[1].Run(p.now)
	e.out.Clock = func() clock.Time { return p.now.Add(takes) }
	told := p.hearAcks()
	// hears sends the peer, in the middle of its long Write, a packet that it must acknowledge at once, and returns the ACK block.
	hears := func() wire.Ack {
		*told = nil
		p.post(0, p.write(0, 0, 10*1344))
		if p.now = p.now.Add(time.Microsecond); stamps {
			p.link[1].stamp = p.now
		}
		p.eng[0].Run(p.now)
		e.Run(p.now)
		if len(*told) == 0 {
			t.Fatalf("seed %d: nothing is acknowledged at once", seed)
		}
		return (*told)[len(*told)-1]
	}
	if held := time.Duration(hears().Delay) * wire.AckDelayUnit; held > takes || held < takes-wire.AckDelayUnit {
		t.Errorf("seed %d: the ACK block reports a delay of %v; sending took %v", seed, held, takes)
	}
	p.now = p.now.Add(takes)
	if a := hears(); a.Flags&wire.AckAway != 0 == stamps {
		t.Errorf("seed %d: packets that came while the peer sent, stamped %v: flags %#x", seed, stamps, a.Flags)
	}
}

// A REQ that another adapter of the machine handed over has no arrival time. It must not inherit the arrival time of the packet
// before it.
func TestStampIsOfThePacketAtHand(t *testing.T) {
	p := newPair(t, 1408).connect()
	e := p.eng[1]
	p.link[1].stamp = p.now.Add(-time.Millisecond)
	p.post(0, p.write(0, 0, 64))
	p.now = p.now.Add(time.Microsecond)
	p.eng[0].Run(p.now)
	e.Run(p.now)
	if e.in.came != p.link[1].stamp || !e.in.known {
		t.Fatalf("a packet came at %d, known %t", e.in.came, e.in.known)
	}
	Inject(e, &RxPacket{N: 1})
	if e.in.came != e.now || e.in.known {
		t.Errorf("the injected packet has the arrival time %d, known %t", e.in.came, e.in.known)
	}
	if at, known := (&RxPacket{Arrived: e.now.Add(time.Second)}).Came(e.now); at != e.now || !known {
		t.Errorf("a stamp of the future is %v from now", at.Sub(e.now))
	}
}
