package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Long packets (PROTOCOL §11.2). Package bulk tests when they are probed for, and package packet how they are written.

// longConfig is for connections that probe for long packets at once.
var longConfig = Config{BulkPort: bulkPort, LongAfter: 1}

// watchLong counts the long packets that arrive at each side. lose decides which of them are lost.
func (p *pair) watchLong(lose func(t *TxPacket) bool) *[2]int {
	var seen [2]int
	for side, end := range p.link {
		end.router = func(t *TxPacket) (ce, ok bool) {
			if flagged := wire.IsLong(t.Frags[0].Data); flagged != (t.Segment > 0) || flagged && (!t.Bulk || t.Joins || t.Segment != 1408 || t.Len <= t.Segment) {
				p.tb.Errorf("a packet of %d bytes, flag %v, segment %d, bulk %v", t.Len, flagged, t.Segment, t.Bulk)
			}
			if t.Segment > 0 {
				if lose(t) {
					return false, false
				}
				seen[side]++
			}
			return false, true
		}
	}
	return &seen
}

// long reports whether side 0 sends long packets now.
func (p *pair) long() bool { return p.conn(0).traffic.sent.long.Proven() > 0 }

// Long packets are sent only if both sides offered them.
func TestLongIsAgreed(t *testing.T) {
	for _, c := range []struct {
		name  string
		after int
		old   int // the side that knows no features; -1 for none
		op    wire.Opcode
		wants bool
	}{
		{"both", 1, -1, 0, true},
		{"neither", 0, -1, 0, false},
		{"the caller does not", 1, 0, wire.CtlREQ, false},
		{"the called does not", 1, 1, wire.CtlREP, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort, LongAfter: c.after})
			if c.old >= 0 {
				p.link[1-c.old].mangle = stripFeatures(c.op)
			}
			seen := p.watchLong(never)
			p.connect()
			for range 3 {
				p.stream(200_000)
			}
			if c.wants != (seen[1] > 0) || c.wants != (p.eng[0].Stats().LongProven > 0) {
				t.Errorf("%d long packets, want some: %v", seen[1], c.wants)
			}
		})
	}
}

// A long message takes about as many packets as it has times the length of a GSO batch, in both directions, and lists of messages share
// them.
func TestLongPacketsReplaceSegments(t *testing.T) {
	p := newTunedPair(t, 1408, 1, longConfig).connect().warmedUp()
	for range 6 {
		p.stream(1 << 20)
	}
	p.post(0, &listed{SGL: p.sge(0, 0, 1<<20), Request: Request{Kind: KindRead, Length: 1 << 20, Addr: p.reg[1].Base(), Token: p.reg[1].Token()}})
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	for _, c := range []struct {
		name         string
		from, posts  int
		read         bool
		length, most uint32
	}{
		{"Write", 0, 1, false, 1 << 20, 18},
		{"READ", 1, 1, true, 1 << 20, 18},
		{"Writes", 0, 20, false, 30_000, 12},
		{"small Writes", 0, 200, false, 600, 4},
	} {
		p.pass(2 * mixedFor) // otherwise what was sent before counts as another connection's small messages
		seen, before := p.watchLong(never), p.eng[c.from].Stats().PacketsOut
		p.pattern(1 << 20)
		clear(p.reg[1-c.from].Bytes())
		if c.read {
			copy(p.reg[1].Bytes(), p.reg[0].Bytes())
			clear(p.reg[0].Bytes())
		}
		p.repeat(c.posts, c.length, c.read)
		if string(p.reg[0].Bytes()[:c.length]) != string(p.reg[1].Bytes()[:c.length]) {
			t.Fatalf("%s: wrong bytes", c.name)
		}
		if n := p.eng[c.from].Stats().PacketsOut - before; n > uint64(c.most)+4 || seen[1-c.from] == 0 {
			t.Errorf("%s: %d packets, %d of them long, want at most %d", c.name, n, seen[1-c.from], c.most)
		}
	}
}

// A packet that was begun as a long packet, and ends early because the next request has to wait, leaves by the bulk lane, too: AF_XDP
// cannot send its payload, which is application memory.
func TestShortPacketBegunAsLong(t *testing.T) {
	p := newTunedPair(t, 1408, 1, longConfig).connect().warmedUp()
	for range 6 {
		p.stream(1 << 20)
	}
	short := 0
	p.link[1].router = func(tx *TxPacket) (ce, ok bool) {
		if slices.ContainsFunc(tx.Frags[:tx.N], func(f Frag) bool { return f.ID == Lent }) {
			if !tx.Bulk {
				t.Errorf("a packet of %d bytes leaves for the ND port with application memory", tx.Len)
			}
			if tx.Segment == 0 {
				short++
			}
		}
		return false, true
	}
	const posts = 14
	for i := range posts {
		r := p.write(0, 0, 1100)
		switch i {
		case 0:
		case 1:
			r.Kind = KindRead
		default:
			r.Flags |= FlagReadFence
		}
		p.post(0, r)
	}
	p.runUntilIdle()
	if n := len(p.results(0)); n != posts {
		t.Fatalf("%d results, want %d", n, posts)
	}
	if short == 0 {
		t.Error("no short packet refers to application memory")
	}
}

// In a network that splits GSO batches the only cost is probes, the more rarely the more of them were lost. A connection that idles in
// between sends no more of them.
func TestNetworkSplitsBatches(t *testing.T) {
	for _, idles := range []bool{false, true} {
		p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort, LongAfter: 100_000}).connect()
		lost := uint64(0)
		seen := p.watchLong(func(*TxPacket) bool { lost++; return true })
		for range 64 {
			p.stream(200_000)
			if idles {
				p.pass(3 * p.eng[0].cfg.IdleAfter)
			}
		}
		s := p.eng[0].Stats()
		if s.Timeouts != 0 || s.Retransmits != 0 || s.BulkLeft != 0 || s.BulkProven == 0 || s.LongProven != 0 || seen[1] != 0 {
			t.Errorf("%d time-outs, %d repetitions, bulk path left %d times", s.Timeouts, s.Retransmits, s.BulkLeft)
		}
		// 12.8 MB contain failures after 0.1, 0.2, 0.4, and so on up to 6.4 MB, with three probes before each.
		if lost == 0 || lost > 3*8 || !idles && (s.LongLeft < 3 || s.LongLeft > 7 || lost < 3*s.LongLeft) {
			t.Errorf("idles %v: given up %d times, after %d probes", idles, s.LongLeft, lost)
		}
	}
}

// If a network begins to split GSO batches, the connection soon sends none but segments, also on the bulk path. No data are lost for
// long, and long packets come back when batches arrive again.
func TestNetworkBeginsToSplit(t *testing.T) {
	p := newTunedPair(t, 1408, 1, longConfig).connect()
	splits := false
	p.watchLong(func(*TxPacket) bool { return splits })
	for range 4 {
		p.stream(500_000)
	}
	if !p.long() {
		t.Fatal("no long packets")
	}
	splits = true
	for range 4 {
		p.stream(500_000)
	}
	s := p.eng[0].Stats()
	if p.long() || s.LongLeft == 0 || s.BulkLeft != 0 {
		t.Errorf("it sends long packets: %v, given up %d times, bulk path left %d times", p.long(), s.LongLeft, s.BulkLeft)
	}
	bulk := s.BulkPacketsOut
	if p.stream(500_000); p.eng[0].Stats().BulkPacketsOut < bulk+100 {
		t.Error("the bulk path is not used any more")
	}
	splits = false
	for range 40 {
		p.stream(500_000)
		p.now = p.now.Add(10 * time.Millisecond)
	}
	if !p.long() {
		t.Errorf("no long packets after the network has recovered: %+v", p.conn(0).traffic.sent.long)
	}
}

// A long packet is used only on a connection that agreed to them. A segment that lies about it changes nothing.
func TestAttackLongPackets(t *testing.T) {
	for _, agreed := range []bool{true, false} {
		cfg, want := longConfig, uint64(0)
		if !agreed {
			cfg.LongAfter, want = 0, 1
		}
		p := newTunedPair(t, 1408, 1, cfg).connect()
		f := p.forge(1)
		f.bulk, f.from.Port = true, bulkPort
		f.fields.Number++
		f.fields.Flags |= wire.FlagLong
		before := p.eng[1].Stats()
		p.shoot(f)
		if s := p.eng[1].Stats(); s.Drops[wire.DropReserved] != before.Drops[wire.DropReserved]+want || !agreed && s.PacketsOut != before.PacketsOut {
			t.Errorf("agreed %v: drops %v", agreed, s.DropsByName())
		}
		// Its first segment alone is damaged.
		f.fields.Number++
		f.spoil = func(b []byte) []byte { return b[:len(b)-1] }
		before = p.eng[1].Stats()
		p.shoot(f)
		if s := p.eng[1].Stats(); s.Drops[wire.DropCRC] != before.Drops[wire.DropCRC]+1 {
			t.Errorf("agreed %v: drops %v", agreed, s.DropsByName())
		}
	}
}

// Long packets allocate nothing.
func TestLongAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var rs [64]Result
	p := newTunedPair(t, 1408, 1, longConfig).connect()
	big := p.write(0, 0, 200_000)
	allocates(t, p, func() {
		p.post(0, big)
		p.runUntilIdle()
		p.drain(rs[:])
	})
	if s := p.eng[0].Stats(); s.LongProven != 1 || s.BulkPacketsOut == 0 {
		t.Errorf("long packets were proven %d times", s.LongProven)
	}
}

// Beside connections that send little, a poll sends one long packet, longer than two small shares.
func TestLongPacketsBesideSmallMessages(t *testing.T) {
	p := newTunedPair(t, 1408, 1, longConfig).connect().warmedUp()
	for range 4 {
		p.stream(1 << 20)
	}
	seen := p.watchLong(never)
	p.post(0, p.write(0, 0, 1<<20))
	e := p.eng[0]
	for range 20 {
		p.now += 1000
		e.round.shares.bulkAt, e.round.shares.sparseAt = p.now, p.now
		before := seen[1]
		if e.Run(p.now); seen[1] == before {
			continue
		}
		if e.out.Bytes() <= 2*smallShare || e.out.Bytes() > mostShare || seen[1] != before+1 {
			t.Errorf("a poll sent %d bytes in %d long packets", e.out.Bytes(), seen[1]-before)
		}
	}
	if seen[1] < 2 {
		t.Errorf("%d long packets in 20 polls", seen[1])
	}
}
