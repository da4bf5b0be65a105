package provider

import (
	"reflect"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// pingFlood delivers n PINGs to side 1, each in a poll of its own, and loses everything that side 1 sends.
func (p *pair) pingFlood(n int) {
	m := wire.Ping{Port: 1}
	f := p.forge(1)
	f.control(wire.CtlPing, m.Append(nil))
	for range n {
		f.fields.Number++
		p.inject(1, f)
		p.eng[1].Run(p.now)
	}
}

// A peer that makes our side answer, and acknowledges nothing, makes it remember a bounded number of answers. Answers beyond the
// bound count as lost. Once the peer acknowledges, or is quiet for a second, all of that memory is free, although the peer keeps
// asking. PacketsLost counts the answers.
func TestAttackUnacknowledgedAnswers(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	p.link[0].mangle = func([]byte) bool { return false }
	p.post(1, p.write(1, 0, 8))
	p.eng[1].Run(p.now)
	p.pingFlood(3 * maxEmptyNumbers)
	c := p.conn(1)
	if n := len(c.traffic.sent.packets.Ring()); n > maxEmptyNumbers || p.eng[1].store.Used() != (n-shortNumbers)*recovery.PacketBytes {
		t.Errorf("%d answers are remembered, %d bytes are charged", n, p.eng[1].store.Used())
	}
	if s := p.eng[1].Stats(); s.PacketsLost == 0 {
		t.Error("nothing counts as lost")
	}
	p.link[0].mangle = nil
	p.runUntilIdle()
	for range 20 { // the peer acknowledges, and is never idle
		p.pass(100 * time.Millisecond)
		p.pingFlood(1)
	}
	p.outcomes(1, OutcomeSuccess)
	if n := len(c.traffic.sent.packets.Ring()); n != shortNumbers || p.eng[1].store.Used() != 0 {
		t.Errorf("%d transmissions are remembered, %d bytes are charged", n, p.eng[1].store.Used())
	}
}

// Connections of one source share a limit on remembered transmissions. Connections of another source are not affected.
func TestAnswersAreChargedToTheirSource(t *testing.T) {
	const room = 16 * 1024 * recovery.PacketBytes
	p := newTunedPair(t, 1408, 1, Config{HeldBytes: room}).connect().warmedUp()
	hog := p.eng[1].store.Open([16]byte{9}) // many connections of another source
	for p.eng[1].store.Charge(hog, recovery.PacketBytes, 0) {
	}
	if used := p.eng[1].store.Used(); used > room*3/4+recovery.PacketBytes {
		t.Fatalf("a source takes %d of %d", used, room)
	}
	p.link[0].mangle = func([]byte) bool { return false }
	p.post(1, p.write(1, 0, 8))
	p.eng[1].Run(p.now)
	p.pingFlood(2 * maxEmptyNumbers)
	if n := len(p.conn(1).traffic.sent.packets.Ring()); n != 1024 {
		t.Errorf("%d answers are remembered beside another source", n)
	}
}

// The memory of a transmission record is charged in full.
func TestRecordsAreChargedWhole(t *testing.T) {
	if is := reflect.TypeFor[recovery.Packet]().Size(); is != recovery.PacketBytes {
		t.Errorf("a record has %d bytes, %d are charged", is, recovery.PacketBytes)
	}
}

// Packets in order do not extend the deadline of packets behind gaps. A peer that leaves gaps, and fills one before each deadline,
// ends like a peer that fills none.
func TestAttackTrickle(t *testing.T) {
	p := newPair(t, 1408).connect()
	limit := 2 * gapMoves * p.eng[1].cfg.Stalled // packets that arrive while others wait have their own deadline after them
	began := p.now
	for p.ctr[1].State() == CtrEstablished && p.now.Sub(began) <= limit+time.Second {
		next := p.conn(1).traffic.received.spaces[0].next.Message()
		p.shoot(p.pieceAt(2000, 8, "i", true))
		p.shoot(p.forge(1).at(wire.RequestSpace, space.At(next+1, 0)).ops(wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast}))
		p.shoot(p.forge(1)) // the new packet fills the gap before the earlier packet
		p.pass(p.eng[1].cfg.Stalled / 4)
	}
	if took := p.now.Sub(began); took > limit || p.eng[1].store.Used() != 0 || p.eng[1].Stats().Lost != 1 {
		t.Errorf("it went on for %v, %d bytes wait", took, p.eng[1].store.Used())
	}
}
