package provider

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Attacks with versions, packet numbers and acknowledgements. Each attack costs the victim a bounded amount of time and memory,
// causes no allocation, and is counted.

// flood delivers n forged packets to side 1, one per microsecond. next makes each of them. flood returns how many packets side 1
// sent meanwhile.
func (p *pair) flood(n int, f *forged, next func(i int, f *forged)) (answers uint64) {
	p.tb.Helper()
	before := p.eng[1].Stats().PacketsOut
	for i := range n {
		next(i, f)
		p.inject(1, f)
		p.now = p.now.Add(time.Microsecond)
		p.eng[1].Run(p.now)
	}
	return p.eng[1].Stats().PacketsOut - before
}

// works fails the test unless a WRITE of the honest peer succeeds.
func (p *pair) works() {
	p.tb.Helper()
	p.pass(2 * time.Second)
	p.post(0, p.write(0, 0, 3000))
	p.pass(2 * time.Second)
	p.outcomes(0, OutcomeSuccess)
}

// Packets of other versions, including REQs, get no answer and change nothing (PROTOCOL §3.3). Drops[version] counts them.
func TestAttackOtherVersions(t *testing.T) {
	const tries = 1000
	for version := range byte(16) {
		if version == wire.Version {
			continue
		}
		p := newPair(t, 1408).connect()
		l := p.eng[1].NewListener()
		_, o := l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort + 1})
		p.must(o)
		p.must(l.Listen(1))
		rx, connections := p.conn(1).expects(), p.eng[1].Stats().Connections
		control := p.forge(1)
		control.control(wire.CtlDREQ, nil)
		req := stranger(address(1), 3, 3, nil, nil)
		binary.BigEndian.PutUint16(req.body[wire.ControlHeaderLen+18:], pairPort+1)
		answers := uint64(0)
		for _, f := range []*forged{p.forge(1), control, req} {
			f.fix = func(b []byte) { b[0] = b[0]&0xf | version<<4 }
			answers += p.flood(tries, f, func(int, *forged) {})
		}
		s := p.eng[1].Stats()
		if s.Drops[wire.DropVersion] != 3*tries || answers != 0 || s.Connections != connections || p.conn(1).expects() != rx {
			t.Errorf("version %d: %d dropped, %d answers, %d connections", version, s.Drops[wire.DropVersion], answers, s.Connections)
		}
		p.works()
	}
}

// rawAck encodes an ACK block without checking that its values make sense.
func rawAck(largest uint32, further int, flags byte, first uint32, ranges ...[2]uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, largest)
	b = append(b, 0xff, 0xff, byte(further), flags)
	b = binary.BigEndian.AppendUint32(b, first)
	for _, r := range ranges {
		b = binary.BigEndian.AppendUint32(b, r[0])
		b = binary.BigEndian.AppendUint32(b, r[1])
	}
	return b
}

// ACK blocks that cannot be true acknowledge nothing while data are in flight (PROTOCOL §3.5). Cases: numbers before the first or
// after the newest packet; ranges that overlap by wrapping around; ranges too far below the largest number; too many ranges; more
// ranges than the block holds; unknown flags. Drops[ack_range], Drops[short] and Drops[reserved] count them.
func TestAttackAcknowledgements(t *testing.T) {
	for name, c := range map[string]struct {
		block func(next, sent uint32) []byte // next is the number of the next packet, sent is how many packets were sent
		drop  wire.DropReason
	}{
		"next":                  {func(next, _ uint32) []byte { return rawAck(next, 0, 0, 0) }, wire.DropAckRange},
		"far ahead":             {func(next, _ uint32) []byte { return rawAck(next+1<<30, 0, 0, 0) }, wire.DropAckRange},
		"half way round":        {func(next, _ uint32) []byte { return rawAck(next+1<<31, 0, 0, 0) }, wire.DropAckRange},
		"before the first":      {func(next, sent uint32) []byte { return rawAck(next-sent-1, 0, 0, 0) }, wire.DropAckRange},
		"down before the first": {func(next, sent uint32) []byte { return rawAck(next-1, 0, 0, sent) }, wire.DropAckRange},
		"everything":            {func(next, _ uint32) []byte { return rawAck(next-1, 0, 0, 1<<32-1) }, wire.DropAckRange},
		"half of everything":    {func(next, _ uint32) []byte { return rawAck(next-1, 0, 0, 1<<31) }, wire.DropAckRange},
		"second range before the first number": {func(next, sent uint32) []byte {
			return rawAck(next-1, 1, 0, 0, [2]uint32{sent, 0})
		}, wire.DropAckRange},
		"a gap that goes round to overlap": {func(next, _ uint32) []byte {
			return rawAck(next-1, 1, 0, 0, [2]uint32{1<<32 - 2, 0})
		}, wire.DropAckRange},
		"a length that goes round to overlap": {func(next, _ uint32) []byte {
			return rawAck(next-1, 1, 0, 0, [2]uint32{0, 1<<32 - 3})
		}, wire.DropAckRange},
		"ranges that go round together": {func(next, _ uint32) []byte {
			return rawAck(next-1, 2, 0, 0, [2]uint32{0, 1<<30 - 1}, [2]uint32{0, 1<<32 - 1<<30})
		}, wire.DropAckRange},
		"too many ranges": {func(next, _ uint32) []byte {
			return rawAck(next-1, wire.MaxAckRanges, 0, 0, make([][2]uint32, wire.MaxAckRanges)...)
		}, wire.DropAckRange},
		"ranges that are not there": {func(next, _ uint32) []byte { return rawAck(next-1, 3, 0, 0, [2]uint32{}) }, wire.DropShort},
		"unknown flags":             {func(next, _ uint32) []byte { return rawAck(next-1, 0, 0x80, 0) }, wire.DropReserved},
	} {
		for _, beside := range []bool{false, true} {
			if beside && c.drop == wire.DropShort {
				continue // the receiver takes the bytes behind the block for its ranges
			}
			p := newPair(t, 1408).connect()
			p.post(1, p.write(1, 0, 20000))
			p.link[0].mangle = func([]byte) bool { return false } // lost, so that nothing is acknowledged
			p.eng[1].Run(p.now)
			v := p.conn(1)
			una, next := v.traffic.sent.spaces[0].Una(), uint32(v.traffic.sent.packets.Next())
			f := p.forge(1)
			if !beside {
				f.bare()
			}
			f.fields.Flags |= wire.FlagAck
			f.body = append(c.block(next, next-uint32(v.traffic.sent.packets.First())), f.body...)
			rx := v.expects()
			p.flood(100, f, func(int, *forged) {})
			if s := p.eng[1].Stats(); s.Drops[c.drop] != 100 || v.traffic.sent.spaces[0].Una() != una || v.traffic.sent.spaces[0].Beyond() != 0 || v.expects() != rx {
				t.Errorf("%s, beside %v: %d dropped, acknowledged up to %x, before %x", name, beside, s.Drops[c.drop], v.traffic.sent.spaces[0].Una(), una)
			}
			p.link[0].mangle = nil
			p.pass(5 * time.Second)
			p.outcomes(1, OutcomeSuccess)
			p.works()
		}
	}
}

// If a peer's packet numbers have gaps everywhere, far more than an ACK block has ranges, the receiver forgets only the lowest
// ranges: both its memory and its blocks are bounded (PROTOCOL §3.5). Each packet causes at most one acknowledgement. AcksOut
// counts them.
func TestAttackTinyRanges(t *testing.T) {
	p := newPair(t, 1408).connect()
	f := p.forge(1)
	const tries = 20000
	longest := 0
	p.link[0].mangle = func(b []byte) bool {
		longest = max(longest, len(b))
		return false
	}
	answers := p.flood(tries, f, func(_ int, f *forged) {
		f.fields.Number += 2
		f.at(wire.RequestSpace, p.conn(1).traffic.received.spaces[0].next)
	})
	if answers > tries+1 || longest > wire.BaseHeaderLen+wire.MaxBlocksLen {
		t.Errorf("%d answers to %d packets, up to %d bytes", answers, tries, longest)
	}
	var a wire.Ack
	if !p.conn(1).traffic.received.numbers.Tell(&a, p.now, wire.MaxAckRanges) || a.N != wire.MaxAckRanges {
		t.Errorf("%d ranges are in the block", a.N)
	}
	if s := p.eng[1].Stats(); s.AcksOut == 0 || p.qp[1].State() != QPReady {
		t.Errorf("%d acknowledgements, %v", s.AcksOut, p.qp[1].State())
	}
	if !raceEnabled {
		if n := testing.AllocsPerRun(100, func() {
			p.flood(1, f, func(_ int, f *forged) {
				f.fields.Number += 2
				f.at(wire.RequestSpace, p.conn(1).traffic.received.spaces[0].next)
			})
		}); n > 10 { // the forged packets
			t.Errorf("%v allocations for each", n)
		}
	}
}

// However often a peer sends TAKENBACK with RNR, our side sends nothing more often than the peer asks for it, and the connection
// does not end (PROTOCOL §3.6, §9.4). Pauses counts the reports.
func TestAttackPauses(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.link[0].mangle = func([]byte) bool { return false }
	p.post(1, p.write(1, 0, 20000))
	p.eng[1].Run(p.now)
	v := p.conn(1)
	packets, next := v.traffic.sent.packets.PacketsInFlight(), v.traffic.sent.spaces[0].Next()
	f := p.forge(1)
	f.bare()
	const tries = 1000
	answers := p.flood(tries, f, func(i int, f *forged) {
		f.fields.Number++
		f.report = &wire.Report{Flags: wire.ReportTakenBack, UpTo: uint32(v.traffic.sent.packets.Next() - 1)}
		if i%2 == 0 {
			f.report.Flags |= wire.ReportRNR
		}
	})
	s := p.eng[1].Stats()
	if s.Pauses == 0 || v.traffic.sent.spaces[0].Una() != 0 || v.traffic.sent.spaces[0].Next() != next || answers > tries*uint64(packets) {
		t.Errorf("%d pauses, %x to %x under way, %d packets for %d", s.Pauses, v.traffic.sent.spaces[0].Una(), v.traffic.sent.spaces[0].Next(), answers, tries)
	}
	p.link[0].mangle = nil
	f.report = &wire.Report{ReceiveLimit: 1 << 20, UpTo: uint32(v.traffic.sent.packets.Next() - 1), Flags: wire.ReportTakenBack}
	f.fields.Number++
	p.inject(1, f)
	p.pass(5 * time.Second)
	p.outcomes(1, OutcomeSuccess)
}
