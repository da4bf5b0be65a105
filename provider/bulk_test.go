package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// The bulk path of connections (PROTOCOL §11.1). Package bulk tests when it is used.

// lanes counts the packets with contents that arrived at a side on each path, and the probes on the bulk path.
type lanes struct{ main, bulk, probes int }

// watchLanes counts the packets that arrive at each side. lose decides which packets of the bulk path are lost.
func (p *pair) watchLanes(lose func(t *TxPacket) bool) *[2]lanes {
	var seen [2]lanes
	for side, end := range p.link {
		end.router = func(t *TxPacket) (ce, ok bool) {
			s, b := &seen[side], t.Frags[0].Data
			switch {
			case t.Bulk && lose(t):
				return false, false
			case t.Bulk && sequenced(b):
				s.bulk++
			case t.Bulk:
				s.probes++
			case sequenced(b):
				s.main++
			}
			return false, true
		}
	}
	return &seen
}

func never(*TxPacket) bool { return false }

// stream writes n bytes in one message and fails the test unless they arrive.
func (p *pair) stream(n int) {
	p.tb.Helper()
	p.pattern(n)
	clear(p.reg[1].Bytes()[:n])
	p.post(0, p.write(0, 0, uint32(n)))
	p.pass(900 * time.Millisecond) // the connection is not idle yet
	p.outcomes(0, OutcomeSuccess)
	if string(p.reg[1].Bytes()[:n]) != string(p.reg[0].Bytes()[:n]) {
		p.tb.Fatal("the bytes that arrived are not those that were sent")
	}
}

// repeat posts Writes or READs of length bytes at side 0, and fails the test unless all complete.
func (p *pair) repeat(posts int, length uint32, read bool) {
	p.tb.Helper()
	for range posts {
		r := p.write(0, 0, length)
		if read {
			r.Kind = KindRead
		}
		p.post(0, r)
	}
	p.runUntilIdle()
	if n := len(p.results(0)); n != posts {
		p.tb.Fatalf("%d results of %d requests of %d bytes", n, posts, length)
	}
}

// Packets use the bulk path only if both sides offered one in the handshake.
func TestBulkIsAgreed(t *testing.T) {
	for _, c := range []struct {
		name  string
		port  uint16
		runs  bool // both sides send GSO batches to the ND port
		old   int  // the side that knows no features; -1 for none
		op    wire.Opcode
		wants bool
	}{
		{"both", bulkPort, false, -1, 0, true},
		{"no bulk path", 0, false, -1, 0, false},
		{"no need of one", bulkPort, true, -1, 0, false},
		{"the caller does not", bulkPort, false, 0, wire.CtlREQ, false},
		{"the called does not", bulkPort, false, 1, wire.CtlREP, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTunedPair(t, 1408, 1, Config{BulkPort: c.port, Runs: c.runs})
			if c.old >= 0 {
				p.link[1-c.old].mangle = stripFeatures(c.op)
			}
			seen := p.watchLanes(never)
			p.connect()
			p.stream(200_000)
			if s := seen[1]; c.wants != (s.bulk > 0) || c.wants != (s.probes > 0) || s.main == 0 {
				t.Errorf("got %+v, want bulk: %v", s, c.wants)
			}
		})
	}
}

// Short messages go to the ND port although the bulk path is confirmed. Contents that follow a long message use the bulk path like
// the message, so that they do not overtake it.
func TestBulkIsForLongMessages(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect()
	seen := p.watchLanes(never)
	p.post(0, p.write(0, 0, 200_000))
	p.runUntilIdle()
	before := seen[1].bulk
	if !p.conn(0).traffic.sent.bulk.Carries(1408) {
		t.Fatal("the bulk path is not confirmed")
	}
	for range 50 {
		p.post(0, p.write(0, 0, 4000))
		p.runUntilIdle()
	}
	if n := seen[1].bulk - before; n != 0 {
		t.Errorf("%d packets of small messages went on the bulk path", n)
	}
}

// If the port of a bulk path is closed, the only cost is probes.
func TestBulkPortIsClosed(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect()
	seen := p.watchLanes(func(*TxPacket) bool { return true })
	for range 5 {
		p.stream(200_000)
	}
	s := p.eng[0].Stats()
	if s.Timeouts != 0 || s.Retransmits != 0 || s.BulkPacketsOut != s.BulkProbes || s.BulkProbes == 0 || s.BulkProven != 0 || s.BulkUnanswered == 0 || s.BulkLeft != s.BulkUnanswered || seen[1].main == 0 {
		t.Errorf("%d time-outs, %d repetitions, %d packets on the bulk path, %d of them probes", s.Timeouts, s.Retransmits, s.BulkPacketsOut, s.BulkProbes)
	}
}

// If the port of a bulk path is closed, a connection that was idle in between probes it no more often than a busy connection.
func TestBulkPauseOutlastsIdle(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect()
	p.watchLanes(func(*TxPacket) bool { return true })
	for range 30 {
		p.stream(200_000)
		p.pass(3 * p.eng[0].cfg.IdleAfter)
		if p.conn(0).traffic != nil {
			t.Fatal("the connection is not idle")
		}
	}
	// Two minutes contain pauses of 1, 2, 4, 8, 16, 32 and 64 s, with three probes before each.
	if s := p.eng[0].Stats(); s.BulkUnanswered < 3 || s.BulkUnanswered > 7 || s.BulkProbes > 3*(s.BulkUnanswered+1) {
		t.Errorf("left %d times, after %d probes", s.BulkUnanswered, s.BulkProbes)
	}
}

// If the bulk path fails during a transfer, data use the ND port once packets of the bulk path are overdue. The connection needs no
// time-out for that. Data return to the bulk path once a probe confirms it.
func TestBulkDies(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect().warmedUp()
	dead, left := false, 60
	seen := p.watchLanes(func(t *TxPacket) bool {
		left--
		return dead || left < 0
	})
	p.stream(300_000)
	s := p.eng[0].Stats()
	if s.BulkLeft != 1 || s.BulkTimedOut != 1 || s.Timeouts != 0 || s.BulkProven != 1 {
		t.Errorf("left %d times after %d time-outs, proven %d times", s.BulkLeft, s.Timeouts, s.BulkProven)
	}
	if l := p.lane(); l != "unproven" {
		t.Errorf("the state of a bulk path that was left is %q", l)
	}
	before := seen[1].bulk
	left = 1 << 30
	p.pass(5 * time.Second)
	p.stream(300_000)
	if s := p.eng[0].Stats(); s.BulkProven != 2 || seen[1].bulk == before || p.lane() != "proven" {
		t.Errorf("proven %d times, %d packets on the bulk path after it came back, it is %q", s.BulkProven, seen[1].bulk-before, p.lane())
	}
}

// A descheduled peer receives nothing on either path. Packets that left by the bulk path wait there for the peer and are not
// retransmitted.
func TestBulkOutlastsAnAbsence(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort, BulkAlways: true}).connect().warmedUp()
	p.stream(300_000)
	before := p.eng[0].Stats()
	p.post(0, p.write(0, 0, 300_000))
	p.eng[0].Run(p.now)
	if c := p.conn(0); !c.traffic.sent.packets.Packet(c.traffic.sent.packets.Oldest()).Path.Bulk() || c.traffic.sent.packets.PacketsInFlight() < 10 {
		t.Fatalf("%d packets in flight, not on the bulk path", c.traffic.sent.packets.PacketsInFlight())
	}
	for end := p.now.Add(10 * time.Millisecond); p.now < end; p.now = p.now.Add(100 * time.Microsecond) {
		p.eng[0].Run(p.now)
	}
	p.pass(100 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	s := p.eng[0].Stats()
	if timeouts := s.Timeouts - before.Timeouts; timeouts < 1 || s.BulkLeft != before.BulkLeft || p.lane() != "proven" {
		t.Errorf("%d time-outs, the bulk path was left %d times and is %q", timeouts, s.BulkLeft-before.BulkLeft, p.lane())
	}
	if again, timers := s.Retransmits-before.Retransmits, s.Timeouts-before.Timeouts+s.Probes-before.Probes; again > timers {
		t.Errorf("%d packets were retransmitted for %d timers", again, timers)
	}
}

// lane returns the state of the bulk path from a snapshot of the first side's connection.
func (p *pair) lane() string {
	var info [1]ConnInfo
	if n, _, _ := p.eng[0].Connections(info[:], 0); n != 1 {
		p.tb.Fatal("no connection")
	}
	return info[0].BulkLane
}

// A sender stops using a bulk path that loses most packets, and the data arrive at the ND port.
func TestBulkLosesMost(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort, BulkAlways: true}).connect().warmedUp()
	n := 0
	p.watchLanes(func(t *TxPacket) bool {
		n++
		return sequenced(t.Frags[0].Data) && n%8 > 2
	})
	for range 20 {
		p.stream(300_000)
		if s := p.eng[0].Stats(); s.BulkLossy > 0 {
			if s.BulkLossy+s.BulkTimedOut+s.BulkUnanswered != s.BulkLeft {
				t.Errorf("left %d times, of them %d for losses", s.BulkLeft, s.BulkLossy)
			}
			return
		}
	}
	t.Errorf("left %d times, never for losses", p.eng[0].Stats().BulkLeft)
}

// If packets of one path overtake packets of the other path, none of them counts as lost (PROTOCOL §9.3).
func TestLanesOvertakeEachOther(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort, BulkAlways: true}).connect().warmedUp()
	p.post(0, p.write(0, 0, 200_000))
	p.runUntilIdle()
	c := p.conn(0)
	p.link[1].narrow = 1 // nothing arrives
	p.post(0, p.write(0, 0, 100_000))
	p.turn()
	number := c.traffic.sent.packets.Next()
	if c.traffic.sent.packets.PacketsInFlight() < 4 || !c.traffic.sent.packets.Packet(number-1).Path.Bulk() {
		t.Fatalf("%d packets in flight, the newest on the bulk path: %v", c.traffic.sent.packets.PacketsInFlight(), c.traffic.sent.packets.Packet(number-1).Path)
	}
	p.conn(0).traffic.sendPing() // by the ND port
	p.eng[0].flush()
	f := p.forge(0)
	a := &wire.Ack{Largest: uint32(number), Delay: wire.AckDelayUnknown, N: 1}
	f.fields.Number++
	f.alone(a)
	p.now = p.now.Add(500 * time.Microsecond)
	p.link[0].narrow = 0
	p.inject(0, f)
	p.eng[0].Run(p.now)
	if s := p.eng[0].Stats(); s.PacketsLost != 0 {
		t.Errorf("%d packets on the bulk path count as lost, because one by the ND port arrived", s.PacketsLost)
	}
}

// An attacker that sends to the bulk port reaches no more than at the ND port: nothing is answered, no address changes, and dropped
// packets are counted.
func TestAttackBulkLane(t *testing.T) {
	for name, c := range map[string]struct {
		lane   uint16
		change func(p *pair, f *forged)
		drop   wire.DropReason
	}{
		"right":              {bulkPort, func(*pair, *forged) {}, wire.DropNone},
		"another port, near": {bulkPort, func(_ *pair, f *forged) { f.from.Port++ }, wire.DropNone},
		"another port, far":  {bulkPort, func(_ *pair, f *forged) { f.from.Port, f.fields.Number = 7, f.fields.Number+1<<16 }, wire.DropPath},
		"the peer's main port": {bulkPort, func(p *pair, f *forged) {
			f.from.Port, f.fields.Number = p.conn(1).identity.remote.Port, f.fields.Number+1<<16
		}, wire.DropPath},
		"another address":        {bulkPort, func(_ *pair, f *forged) { f.from.IP[15] ^= 8 }, wire.DropAddress},
		"checksum":               {bulkPort, func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { b[30] ^= 1; return b } }, wire.DropCRC},
		"no connection":          {bulkPort, func(_ *pair, f *forged) { f.fields.ConnID ^= 1 << 40 }, wire.DropPath},
		"a REQ":                  {bulkPort, func(_ *pair, f *forged) { f.control(wire.CtlREQ, make([]byte, wire.HelloLen)); f.fields.ConnID = 0 }, wire.DropPath},
		"an unknown bulk port":   {0, func(*pair, *forged) {}, wire.DropPath},
		"malformed, of the peer": {bulkPort, func(_ *pair, f *forged) { f.spoil = func(b []byte) []byte { return b[:wire.BaseHeaderLen-1] } }, wire.DropShort},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTunedPair(t, 1408, 1, Config{BulkPort: c.lane}).connect()
			f := p.forge(1)
			f.bulk, f.from.Port = true, bulkPort
			f.fields.Number++
			c.change(p, f)
			before, port := p.eng[1].Stats(), p.conn(1).identity.remote.Port
			p.shoot(f)
			s := p.eng[1].Stats()
			if c.drop != wire.DropNone && (s.Drops[c.drop] != before.Drops[c.drop]+1 || s.PacketsOut != before.PacketsOut) {
				t.Errorf("drops %v, %d answers", s.DropsByName(), s.PacketsOut-before.PacketsOut)
			}
			if c.drop == wire.DropNone && s.Drops != before.Drops {
				t.Errorf("drops %v", s.DropsByName())
			}
			if s.BulkPacketsIn != before.BulkPacketsIn+1 || s.Challenges != before.Challenges || p.conn(1).identity.remote.Port != port {
				t.Errorf("%d packets on the bulk path, %d challenges", s.BulkPacketsIn-before.BulkPacketsIn, s.Challenges-before.Challenges)
			}
		})
	}
}

// A side whose only port receives GSO batches names that port as its bulk port. Packets from the port of the peer's bulk path count
// as packets of the bulk path, and do not change the peer's path.
func TestLaneAtTheOnlyPort(t *testing.T) {
	for _, c := range []struct {
		name       string
		from       uint16
		by         uint64 // packets that arrived on the bulk path
		challenges uint64
	}{{"the bulk port of the peer", wire.DefaultPort, 1, 0}, {"another port", 7, 0, 1}} {
		p := newTunedPair(t, 1408, 1, Config{BulkPort: wire.DefaultPort}).connect()
		f := p.forge(1)
		f.from.Port = c.from
		f.fields.Number++
		before := p.eng[1].Stats()
		p.shoot(f)
		s := p.eng[1].Stats()
		if s.Drops != before.Drops || s.BulkPacketsIn-before.BulkPacketsIn != c.by || s.Challenges-before.Challenges != c.challenges {
			t.Errorf("from %s: drops %v, %d packets on the bulk path, %d challenges", c.name, s.DropsByName(), s.BulkPacketsIn-before.BulkPacketsIn, s.Challenges-before.Challenges)
		}
	}
}

// If the two paths bring different bytes for the same offset, the bytes that arrive first are used, on either path.
// Drops[duplicate] counts the others.
func TestAttackLanesContradictEachOther(t *testing.T) {
	for _, bulkFirst := range []bool{false, true} {
		p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect()
		first := p.firstPiece(16)
		end, forgery := p.pieceAt(0, 8, "ijklmnop", true), p.pieceAt(0, 8, "IJKLMNOP", true)
		for i, f := range []*forged{end, forgery, first} {
			f.fields.Number += uint64(i) + 1
			if f.bulk = (i == 0) == bulkFirst; f.bulk {
				f.from.Port = bulkPort
			}
			p.shoot(f)
		}
		s := p.eng[1].Stats()
		if got := string(p.reg[1].Bytes()[:16]); got != "abcdefghijklmnop" || s.Drops[wire.DropDuplicate] != 1 {
			t.Errorf("bulk first %v: %q, drops %v", bulkFirst, got, s.DropsByName())
		}
	}
}

// A connection that moves to another engine leaves its bulk path behind, and the first engine releases it.
func TestBulkPathsAreForgotten(t *testing.T) {
	p := newQueuesBulkPair(t, 2)
	p.landOn(1, always(1))
	p.connect()
	for round := range 40 {
		p.move(round)
	}
	p.stream(200_000)
	p.disconnect()
	p.pass(10 * time.Second)
	for side := range p.link {
		for i := range 2 {
			for n, path := range p.queue(side, i).paths {
				if path.local.Port == bulkPort {
					t.Errorf("side %d, queue %d: path %d is left", side, i, n)
				}
			}
		}
	}
}

// A confirmed bulk path also carries the long messages of a connection that moved to another engine.
func TestBulkOutlastsAMove(t *testing.T) {
	p := newQueuesBulkPair(t, 2).connect()
	p.stream(200_000)
	before, home := p.stats(0), p.homeOf(0)
	if before.BulkProven == 0 {
		t.Fatal("the bulk path is not confirmed")
	}
	p.moveFrom(home)
	before = p.stats(0)
	p.stream(200_000)
	if s := p.stats(0); s.BulkPacketsOut == before.BulkPacketsOut || s.BulkProbes != before.BulkProbes {
		t.Errorf("%d packets left on the bulk path after the move, with %d probes", s.BulkPacketsOut-before.BulkPacketsOut, s.BulkProbes-before.BulkProbes)
	}
}

func newQueuesBulkPair(t *testing.T, queues int) *pair {
	return newTunedPair(t, 1408, queues, Config{BulkPort: bulkPort})
}

// The state of the bulk path takes no memory of its own, and its packets cost no allocations.
func TestBulkAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var rs [64]Result
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort, BulkAlways: true}).connect()
	big := p.write(0, 0, 20000)
	allocates(t, p, func() {
		p.post(0, big)
		p.runUntilIdle()
		p.drain(rs[:])
	})
	if p.eng[0].Stats().BulkPacketsOut < 1000 {
		t.Error("the bulk path was not used")
	}
}

// Data that are ready to leave at once use the bulk path from the first packet on: a long Write, a list of small Writes, and the
// answer to a READ.
func TestBulkFromTheFirstPacket(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect().warmedUp()
	p.stream(1 << 20) // confirms the bulk path
	p.post(0, &listed{SGL: p.sge(0, 0, 1<<20), Request: Request{Kind: KindRead, Length: 1 << 20, Addr: p.reg[1].Base(), Token: p.reg[1].Token()}})
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	for _, c := range []struct {
		name        string
		side, posts int
		read        bool
		length      uint32
		bulk        bool
	}{
		{"long Write", 1, 1, false, 100 << 10, true},
		{"short Write", 1, 1, false, 4 << 10, false},
		{"small Writes", 1, 200, false, 64, true},
		{"a few small Writes", 1, 20, false, 64, false},
		{"long READ", 0, 1, true, 100 << 10, true},
		{"short READ", 0, 1, true, 4 << 10, false},
	} {
		seen := p.watchLanes(never)
		p.repeat(c.posts, c.length, c.read)
		if s := seen[c.side]; c.bulk && (s.bulk < 10 || s.main > 0) || !c.bulk && s.bulk > 0 {
			t.Errorf("%s: %d packets on the bulk path, %d by the ND port", c.name, s.bulk, s.main)
		}
	}
}

// Only packets of the bulk path refer to application memory without a copy: AF_XDP would take the address for a place in its own
// memory. A full packet of a GSO batch has less payload than any other full packet.
func TestLentMemoryLeavesByTheLane(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect().warmedUp()
	p.stream(1 << 20) // confirms the bulk path
	lent := 0
	p.link[1].router = func(tx *TxPacket) (ce, ok bool) {
		if slices.ContainsFunc(tx.Frags[:tx.N], func(f Frag) bool { return f.ID == Lent }) {
			if lent++; !tx.Bulk {
				t.Errorf("a packet of %d bytes leaves for the ND port with application memory", tx.Len)
			}
		}
		return false, true
	}
	for length := uint32(1024); length < 1408; length += 4 {
		const posts = 16
		for range posts {
			p.post(0, p.write(0, 0, length))
		}
		p.runUntilIdle()
		if n := len(p.results(0)); n != posts {
			t.Fatalf("%d results, want %d", n, posts)
		}
	}
	if lent == 0 {
		t.Error("no packet refers to application memory")
	}
}
