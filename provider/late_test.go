package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// Packets that the network delays so long that their truncated numbers stand for other full numbers (PROTOCOL §3.1, §3.4).

// keepBack makes the network delay the first packet to a side whose first operation is op. late has the packet once it was sent.
func (p *pair) keepBack(side int, op wire.Opcode) (late *[]byte) {
	late = new([]byte)
	p.link[side].mangle = func(b []byte) bool {
		if *late != nil || !sequenced(b) || opcode(b) != op {
			return true
		}
		*late = append([]byte(nil), b...)
		return false
	}
	return late
}

// arriveLate delivers the delayed packet to a side. The side must drop it for this reason and keep nothing of it.
func (p *pair) arriveLate(side int, late []byte, reason wire.DropReason) {
	p.tb.Helper()
	if late == nil {
		p.tb.Fatal("nothing was kept back")
	}
	before := p.eng[side].Stats().Drops[reason]
	t := &TxPacket{N: 1, Len: len(late)}
	t.Frags[0].Data = late
	p.link[side].deliver(t, p.conn(side).identity.remote, wire.Endpoint{IP: pairIP[side], Port: wire.DefaultPort})
	p.runUntilIdle()
	if got := p.eng[side].Stats().Drops[reason] - before; got != 1 || p.eng[side].store.Used() != 0 {
		p.tb.Errorf("%d packets dropped as %v, %d bytes wait", got, reason, p.eng[side].store.Used())
	}
}

// succeed carries out n requests of make, one after the other.
func (p *pair) succeed(n int, make func() *listed) {
	p.tb.Helper()
	for ; n > 0; n -= 200 {
		k := min(n, 200)
		for range k {
			p.post(0, make())
		}
		p.runUntilIdle()
		got := p.results(0)
		if len(got) != k {
			p.tb.Fatalf("%d results of %d", len(got), k)
		}
		for _, r := range got {
			if r.Outcome != OutcomeSuccess {
				p.tb.Fatalf("%+v", r)
			}
		}
	}
}

// first carries out one request. The packet of the request is retransmitted, because the network delays the first transmission.
func (p *pair) first(r *listed) {
	p.tb.Helper()
	p.post(0, r)
	p.pass(200 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
}

// half is the number of messages after which 16 truncated bits are nearer to a later message number.
const half = 1 << 15

// A Write that arrives late is not executed in place of a later message whose number has the same low bits.
func TestLateWriteIsNotCarriedOut(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	late := p.keepBack(1, wire.OpWrite)
	p.fill(0, 0, 8, 0xaa)
	p.first(p.write(0, 0, 8))
	p.fill(0, 0, 8, 0xbb)
	p.succeed(1, func() *listed { return p.write(0, 0, 8) })
	p.succeed(half+1000, func() *listed { return p.write(0, 100, 8) })
	p.arriveLate(1, *late, wire.DropCRC)
	p.succeed(2*half-(half+1000)-2, func() *listed { return p.write(0, 100, 8) })
	p.fill(0, 4096, 8, 0xcc)
	p.succeed(1, func() *listed { return p.write(0, 4096, 8) }) // the message with the same low bits
	if !p.all(1, 0, 8, 0xbb) || !p.all(1, 4096, 8, 0xcc) {
		t.Errorf("% x and % x are in place", p.reg[1].Bytes()[:8], p.reg[1].Bytes()[4096:][:8])
	}
}

// A READ answer that arrives late does not answer a later READ.
func TestLateAnswerAnswersNothing(t *testing.T) {
	const n = 8
	p := newPair(t, 1408).connect().warmedUp()
	late := p.keepBack(0, wire.OpReadResp)
	p.fill(1, 0, n, 0xaa)
	p.first(p.read(0, n))
	p.fill(1, 0, n, 0xbb)
	p.succeed(half+1000, func() *listed { return p.read(0, n) })
	p.arriveLate(0, *late, wire.DropCRC)
	p.succeed(2*half-(half+1000)-1, func() *listed { return p.read(0, n) })
	p.fill(1, 0, n, 0xcc)
	p.succeed(1, func() *listed { return p.read(0, n) }) // the message with the same low bits
	if !p.all(0, 0, n, 0xcc) {
		t.Errorf("a READ brought % x", p.reg[0].Bytes()[:n])
	}
}

// A late packet of either space does not end a connection, whether the connection is quiet afterwards or its messages reach the
// number that the packet seems to have.
func TestLateSendEndsNothing(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	p.receive(1, 0, 64)
	late := p.keepBack(1, wire.OpSend)
	p.first(p.send(0, 8))
	p.results(1)
	p.succeed(half+1000, func() *listed { return p.write(0, 100, 8) })
	p.arriveLate(1, *late, wire.DropCRC)
	p.pass(10 * time.Second)
	if p.ctr[0].State() != CtrEstablished || p.ctr[1].State() != CtrEstablished {
		t.Fatalf("a quiet connection ended: %v, %v", p.ctr[0].State(), p.ctr[1].State())
	}
	p.arriveLate(1, *late, wire.DropCRC) // also while the connection is idle
	p.succeed(half, func() *listed { return p.write(0, 100, 8) })
}

// A packet so little late that its truncated numbers are still right is a duplicate.
func TestLateWithinTheNumbers(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	late := p.keepBack(1, wire.OpWrite)
	p.first(p.write(0, 0, 8))
	p.succeed(half-2, func() *listed { return p.write(0, 100, 8) })
	p.arriveLate(1, *late, wire.DropDuplicate)
	p.succeed(2, func() *listed { return p.write(0, 100, 8) })
	p.arriveLate(1, *late, wire.DropCRC)
}

// A packet whose number is wire.MaxNumbers or more below the largest received one is dropped, whatever it carries, because its
// sender has given it up. A packet above that floor is used.
func TestFloorOfPacketNumbers(t *testing.T) {
	for _, idle := range []bool{false, true} {
		p := newPair(t, 1408).connect()
		c := p.conn(1)
		f := p.forge(1)
		f.fields.Number += 3 * wire.MaxNumbers
		p.inject(1, f)
		p.eng[1].Run(p.now)
		largest, next := c.traffic.received.numbers.Largest(), c.traffic.received.spaces[0].next
		old, control := p.forge(1), p.forge(1)
		control.control(wire.CtlDREQ, nil)
		old.fields.Number, control.fields.Number = largest-wire.MaxNumbers, largest-2*wire.MaxNumbers
		if idle {
			c.enterIdle()
		}
		p.inject(1, old)
		p.inject(1, control)
		p.eng[1].Run(p.now)
		if d := p.eng[1].Stats().Drops; d[wire.DropOld] != 2 || p.ctr[1].State() != CtrEstablished || idle != (c.traffic == nil) {
			t.Errorf("idle %v: %d dropped, %v", idle, d[wire.DropOld], p.ctr[1].State())
		}
		old.fields.Number++
		p.inject(1, old)
		p.eng[1].Run(p.now)
		if c.traffic.received.spaces[0].next != next.NextMessage() {
			t.Errorf("idle %v: a packet at the floor was not used", idle)
		}
	}
}

// When a sender's next packet leaves, the sender has given up all packets below the receiver's floor. So the receiver drops no
// packet that the sender still waits for.
func TestSendersFloor(t *testing.T) {
	p := newPair(t, 1408).connect()
	c := p.conn(0)
	p.link[1].mangle = func(b []byte) bool { return !sequenced(b) }
	p.post(0, p.write(0, 0, 8))
	p.runUntilIdle()
	oldest := c.traffic.sent.packets.Floor()
	for range wire.MaxNumbers + 10 {
		c.traffic.sent.makeRoom()
		c.traffic.sent.packets.Add(recovery.Packet{At: p.now, Size: 60, Kind: recovery.Nothing})
		if c.traffic.sent.packets.Next()-c.traffic.sent.packets.Floor() > wire.MaxNumbers {
			t.Fatalf("%d transmissions are remembered", c.traffic.sent.packets.Next()-c.traffic.sent.packets.Floor())
		}
	}
	if c.traffic.sent.packets.Floor() <= oldest || !c.traffic.sent.spaces[0].HasAgain() {
		t.Error("a packet that was given up is not retransmitted")
	}
}

// Connections work beyond the range of truncated numbers. An old packet with the same low bits of the packet number or message
// number counts as damaged, because the checksum covers the full numbers.
func TestFullNumbersAreCovered(t *testing.T) {
	for name, change := range map[string]func(f *wire.BaseFields){
		"number, one time round before":  func(f *wire.BaseFields) { f.Number -= 1 << 32 },
		"number, one time round behind":  func(f *wire.BaseFields) { f.Number += 1 << 32 },
		"number of a young connection":   func(f *wire.BaseFields) { f.Number &= 1<<32 - 1 },
		"message, one time round before": func(f *wire.BaseFields) { f.Message -= 1 << 16 },
		"message, one time round behind": func(f *wire.BaseFields) { f.Message += 1 << 16 },
		"message of a young connection":  func(f *wire.BaseFields) { f.Message &= 1<<16 - 1 },
	} {
		p := newPair(t, 1408).connect()
		p.growOld()
		f := p.forge(1)
		change(&f.fields)
		next := p.conn(1).traffic.received.spaces[0].next
		p.inject(1, f)
		p.eng[1].Run(p.now)
		if d := p.eng[1].Stats().Drops[wire.DropCRC]; d != 1 || p.conn(1).traffic.received.spaces[0].next != next {
			t.Errorf("%s: %d damaged, next is %x, was %x", name, d, p.conn(1).traffic.received.spaces[0].next, next)
		}
		p.works()
	}
}

// growOld gives a quiet connection the numbers of an old one.
func (p *pair) growOld() {
	const packets, messages = 3 << 32, 7 << 16
	p.pass(time.Second)
	for side := range 2 {
		c := p.conn(side)
		c.enterIdle()
		c.idle.next += packets
		c.idle.heard += packets
		c.idle.rx[wire.RequestSpace] += messages
		c.requestNumbers.nextMessage += messages
	}
	for side := range 2 {
		p.conn(side).leaveIdle()
		p.conn(side).traffic.worked = true
	}
}
