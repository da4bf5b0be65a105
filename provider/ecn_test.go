package provider

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// Congestion marks (PROTOCOL §2, §7.1, §9.4).

// ecnSeen counts the packets that arrived at a side.
type ecnSeen struct{ markable, plain, control, markableControl int }

// watchECN counts what arrives at both sides.
func (p *pair) watchECN() *[2]ecnSeen {
	var seen [2]ecnSeen
	for side := range p.link {
		for i := range 1 + len(p.more[side]) {
			p.queue(side, i).router = func(t *TxPacket) (ce, ok bool) {
				seen[side].count(t)
				return false, true
			}
		}
	}
	return &seen
}

func (s *ecnSeen) count(t *TxPacket) {
	sequenced := sequenced(t.Frags[0].Data)
	switch markable := t.ECN == wire.ECT0; {
	case sequenced && markable:
		s.markable++
	case sequenced:
		s.plain++
	case markable:
		s.markableControl++
	default:
		s.control++
	}
}

// stripFeatures simulates a peer that knows no features: it clears the features of the peer's REQ or REP.
func stripFeatures(op wire.Opcode) func(b []byte) bool {
	return func(b []byte) bool {
		if !sequenced(b) && opcode(b) == op {
			hello := contents(b)[wire.ControlHeaderLen:]
			binary.BigEndian.PutUint32(hello[20:], 0)
			seal(b)
		}
		return true
	}
}

// Packets of operations are sent with ECT(0) only if both sides agreed to it in the handshake. Control packets never are.
func TestMarkingIsAgreed(t *testing.T) {
	for _, c := range []struct {
		name  string
		old   int // the side that knows no features; -1 for none
		op    wire.Opcode
		wants bool
	}{
		{"both", -1, 0, true},
		{"the caller does not", 0, wire.CtlREQ, false},
		{"the called does not", 1, wire.CtlREP, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, 1408)
			if c.old >= 0 {
				p.link[1-c.old].mangle = stripFeatures(c.op)
			}
			seen := p.watchECN()
			p.connect()
			p.move(0)
			for side, s := range seen {
				if s.markableControl > 0 || s.control == 0 {
					t.Errorf("side %d got %+v: control packets can be marked", side, s)
				}
			}
			// The passive side decides by the REQ, the active side by the REP.
			sender := 0
			if c.old == 0 {
				sender = 1
			}
			if got := p.conn(sender).ecn.Field() == wire.ECT0; got != c.wants {
				t.Errorf("side %d sends packets that can be marked: %v, want %v", sender, got, c.wants)
			}
			if s := seen[1-sender]; c.wants != (s.markable > 0) || c.wants != (s.plain == 0) {
				t.Errorf("side %d got %+v", 1-sender, s)
			}
		})
	}
}

// A connection that moves to another engine, and so to another path, still sends packets with ECT(0).
func TestMarkingSurvivesMoves(t *testing.T) {
	p := newQueuesPair(t, 1408, 2)
	seen := p.watchECN()
	p.connect()
	was := p.homeOf(1)
	p.landOn(1, always(1-was))
	for round := range 40 {
		p.move(round)
	}
	if p.homeOf(1) == was {
		t.Fatal("the connection did not move")
	}
	before := seen[0]
	p.move(40)
	if got := seen[0]; got.markable == before.markable || got.plain > 0 || got.markableControl > 0 {
		t.Errorf("side 0 got %+v, before the move %+v", got, before)
	}
}

// The sender learns of every mark exactly once, by flags in data packets or by the count in reports, and reduces its rate.
func TestMarksReachTheSender(t *testing.T) {
	p := newPair(t, 1408).connect()
	marked := uint64(0)
	p.link[1].router = func(t *TxPacket) (ce, ok bool) {
		if t.ECN == wire.ECT0 {
			marked++
		}
		return t.ECN == wire.ECT0, true
	}
	before := p.conn(0).traffic.sent.cc.NetworkWindow()
	for range 8 {
		p.post(0, p.write(0, 0, 5000))
		p.post(0, p.read(0, 5000))
		p.pass(10 * time.Millisecond) // the window becomes smaller than a packet, so packets are paced
		p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	}
	if got := p.stats(0).Marked; got != marked || marked == 0 {
		t.Errorf("%d marks reported, %d packets marked", got, marked)
	}
	if now := p.conn(0).traffic.sent.cc.NetworkWindow(); now >= before {
		t.Errorf("a window of %d became %d", before, now)
	}
	if s := p.stats(0); s.Retransmits > 0 {
		t.Errorf("%d packets retransmitted", s.Retransmits)
	}
}

// If a path loses all packets with ECT(0), the connection sends Not-ECT after three time-outs, and data arrive.
func TestPathWithoutMarkable(t *testing.T) {
	p := newPair(t, 1408).connect()
	lost := 0
	for _, l := range p.link {
		l.router = func(t *TxPacket) (ce, ok bool) {
			if t.ECN == wire.ECT0 {
				lost++
			}
			return false, t.ECN != wire.ECT0
		}
	}
	p.post(0, p.write(0, 0, 64))
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
	if s := p.stats(0); lost == 0 || s.Timeouts != 3 {
		t.Errorf("%d packets lost, %d time-outs", lost, s.Timeouts)
	}
}

// If a path begins to lose all packets with ECT(0), the connection sends Not-ECT after three time-outs, however many packets
// arrived before.
func TestPathThatLosesMarkableLater(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	before := p.stats(0)
	for _, l := range p.link {
		l.router = func(t *TxPacket) (ce, ok bool) { return false, t.ECN != wire.ECT0 }
	}
	p.post(0, p.write(0, 0, 64))
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
	if n := p.stats(0).Timeouts - before.Timeouts; n != 3 {
		t.Errorf("%d time-outs", n)
	}
	before = p.stats(0)
	p.post(0, p.write(0, 0, 64))
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
	if n := p.stats(0).Retransmits - before.Retransmits; n != 0 {
		t.Errorf("%d packets retransmitted when the path was known", n)
	}
}

// Packets of the other direction prevent time-outs. Contents that are lost again and again are still sent with Not-ECT.
func TestPathThatLosesMarkableBesideOthers(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	p.link[1].router = func(t *TxPacket) (ce, ok bool) { return false, t.ECN != wire.ECT0 }
	p.post(0, p.write(0, 0, 64))
	for end := p.now.Add(100 * time.Millisecond); p.now < end; {
		p.post(1, p.write(1, 2000, 64))
		p.pass(50 * time.Microsecond)
		p.results(1)
	}
	p.outcomes(0, OutcomeSuccess)
}

// A side configured without ECN does not agree to marks, although the peer offers them.
func TestNoMarkingWhereItIsOff(t *testing.T) {
	p := newPair(t, 1408)
	p.eng[1].cfg.NoECN = true // the REQ of the other side offers marks
	seen := p.watchECN()
	p.connect()
	p.move(0)
	for side, s := range seen {
		if s.markable+s.markableControl > 0 || s.plain == 0 {
			t.Errorf("side %d got %+v", side, s)
		}
	}
}

// Reports of impossible marks are ignored: more marks than packets, and a count that falls.
func TestMarksThatCannotBe(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	window := p.conn(0).traffic.sent.cc.NetworkWindow()
	for range 20 {
		p.conn(0).traffic.engine.in.overtaken = false
		p.conn(0).traffic.onReport(&wire.Report{ReceiveLimit: p.conn(0).requestNumbers.sendLimit, CECount: 1 << 30})
		p.move(0)
	}
	if c := p.conn(0); c.ecn.Field() != wire.NotECT || c.traffic.sent.cc.NetworkWindow() < window {
		t.Errorf("a window of %d became %d by marks of packets that were never sent", window, c.traffic.sent.cc.NetworkWindow())
	}
}

// virtualQueue is a router that marks because of the rate. It delays nothing.
type virtualQueue struct {
	perByte     time.Duration // at its rate
	mark, limit time.Duration // marks beyond this backlog, and adds nothing to a longer one
	empty       clock.Time    // when the backlog is drained
}

func (q *virtualQueue) marks(now clock.Time, size int) bool {
	q.empty = max(q.empty, now)
	backlog := q.empty.Sub(now)
	if backlog < q.limit {
		q.empty = q.empty.Add(time.Duration(size) * q.perByte)
	}
	return backlog > q.mark
}

// A router that marks because of the rate marks more than 16 packets in a row when a burst filled its virtual queue. The connection still
// sends ECT(0), and its rate follows the marks.
func TestMarksOfAVirtualQueue(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	q := &virtualQueue{perByte: 3, mark: 20 * time.Microsecond, limit: 160 * time.Microsecond}
	row, longest := 0, 0
	p.link[1].router = func(t *TxPacket) (ce, ok bool) {
		ce = t.ECN == wire.ECT0 && q.marks(p.now, t.Len)
		row++
		if !ce {
			row = 0
		}
		longest = max(longest, row)
		return ce, true
	}
	for range 20 {
		began := p.now
		for range 8 {
			p.post(0, p.write(0, 0, 64<<10))
		}
		for n := 0; n < 8; n += len(p.results(0)) {
			p.pass(10 * time.Microsecond)
		}
		if least := 8 * 64 << 10 * q.perByte * 9 / 10; p.now.Sub(began) < least-q.limit {
			t.Errorf("the bytes took %v, want at least %v at the rate of the marks", p.now.Sub(began), least)
		}
		p.pass(time.Millisecond)
	}
	if longest <= 16 {
		t.Errorf("%d packets in a row were marked, too few for this test", longest)
	}
	if p.conn(0).ecn.Field() != wire.ECT0 {
		t.Error("the connection sends no ECT(0) any more")
	}
}

// The flight recorder records when and why a connection stops sending ECT(0), and when it starts again.
func TestWhyMarkingEnds(t *testing.T) {
	changes := func(p *pair) (all []recovery.ECNChange) {
		for _, v := range p.eng[0].FlightRecord().Events {
			if v.Kind == FlightECN && v.ConnID == p.conn(0).identity.id {
				for range v.Count {
					all = append(all, recovery.ECNChange(v.From))
				}
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		do   func(p *pair)
		want []recovery.ECNChange
	}{
		"nothing": {func(*pair) {}, nil},
		"lost, and tried again": {func(p *pair) {
			p.link[1].router = func(t *TxPacket) (ce, ok bool) { return false, t.ECN != wire.ECT0 }
			p.post(0, p.write(0, 0, 64))
			p.pass(time.Second)
			p.link[1].router = nil
			p.pass(2 * time.Minute)
		}, []recovery.ECNChange{recovery.ECNLost, recovery.ECNAgain}},
		"lost, and nothing comes behind it": {func(p *pair) {
			p.link[1].router = func(*TxPacket) (ce, ok bool) { return false, false }
			p.post(0, p.write(0, 0, 64))
			p.pass(time.Second)
			if got := changes(p); len(got) != 1 {
				p.tb.Errorf("%v is recorded while nothing arrives", got)
			}
			p.link[1].router = nil
			p.pass(2 * time.Second)
		}, []recovery.ECNChange{recovery.ECNLost}},
		"all marked": {func(p *pair) {
			p.link[1].router = func(t *TxPacket) (ce, ok bool) { return t.ECN == wire.ECT0, true }
			for range 100 {
				p.post(0, p.write(0, 0, 5000))
				p.pass(10 * time.Millisecond)
			}
		}, []recovery.ECNChange{recovery.ECNAll}},
		"impossible sums": {func(p *pair) {
			f := p.forge(0)
			f.bare()
			f.report = &wire.Report{ReceiveLimit: p.conn(0).requestNumbers.sendLimit, CECount: 1 << 30}
			p.inject(0, f)
			p.eng[0].Run(p.now)
		}, []recovery.ECNChange{recovery.ECNSums}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 1408).connect().warmedUp()
			c.do(p)
			p.results(0)
			p.move(0)
			if got := changes(p); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
