package provider

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// FuzzConversation reads its input as a sequence of requests, losses, waits and injected packets. Injected packets are replayed,
// changed or invented, with a right or wrong checksum, and all go to one of two connections. For every input the engine must not
// panic and must release everything, and the other connection must work. If no checksum was forged, the attacked connection must
// work as well.

// conversation is the state of one run.
type conversation struct {
	*world
	t      *testing.T
	in     []byte
	log    []flight // packets of the attacked connection
	record bool
	ids    [2]uint64
	spared [2]uint64 // ids of the connection that is not attacked
	forged bool      // at least one checksum was forged
	excuse bool      // packets were lost, or a SEND may have been blocked without a receive for too long
	shots  int
}

var fuzzRegions = sync.OnceValue(func() (rs [2]*Region) {
	for i := range rs {
		r, err := worldMem[i].Register(make([]byte, 64<<10), RightRemoteRead|RightRemoteWrite)
		if err != nil {
			panic(err)
		}
		rs[i] = r
	}
	return rs
})

func FuzzConversation(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x03\x01\x40\x02\x01\x01\x02\x00\x20"))
	f.Add([]byte("\x85\x86\x2d\x08abcdefgh\x08\x00\x86\x01\x18\x02\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00ijklmnop")) // two segments in the wrong order
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1024 {
			return
		}
		c := &conversation{world: newWorld(newLanes(), 256, Config{HeldBytes: 256 << 10}), t: t, in: in}
		c.sent = func(f flight) bool {
			if c.record && len(c.log) < 64 && !slices.Contains(c.spared[:], f.id()) {
				c.log = append(c.log, f)
			}
			return true
		}
		honest := c.pairOfQPs()
		others, ok := c.connect(honest)
		if !ok {
			t.Fatal("no connection")
		}
		c.record, c.spared = true, [2]uint64{honest[0].conn.identity.id, honest[1].conn.identity.id} // the handshake of the attacked connection may continue
		ctr, ok := c.connect(c.qp)
		if !ok {
			t.Fatal("no connection")
		}
		c.ids = [2]uint64{c.qp[0].conn.identity.id, c.qp[1].conn.identity.id}
		for len(c.in) > 0 {
			c.step()
		}
		c.record = false
		c.finish(ctr, others, honest)
	})
}

func (c *conversation) pairOfQPs() (qp [2]*QP) {
	for i := range qp {
		cq := NewCQ(64)
		qp[i] = c.eng[i].NewQP(QPConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 4, InitiatorDepth: 4, MaxReceiveSGE: 1, MaxInitiatorSGE: 1})
	}
	return qp
}

func (c *conversation) byte() byte {
	if len(c.in) == 0 {
		return 0
	}
	b := c.in[0]
	c.in = c.in[1:]
	return b
}

func (c *conversation) word() int { return int(c.byte()) | int(c.byte())<<8 }

func (c *conversation) step() {
	op := c.byte()
	side := int(op >> 7)
	switch op & 7 {
	case 0:
		c.pass(time.Duration(1)<<min(c.byte(), 33), func() {})
	case 1:
		c.request(side, c.qp, c.byte(), uint32(c.word()))
	case 2:
		if len(c.air) > 0 {
			c.deliver(int(c.byte()) % len(c.air))
		}
	case 3:
		c.replay()
	case 4:
		c.lose()
	case 5:
		r := fuzzRegions()[side]
		_, _ = c.qp[side].PostReceive(0, []SGE{{Addr: r.Base(), Len: 9000, Token: r.Token()}}, 9000)
		c.turn()
	case 6:
		c.invent(side)
	case 7:
		c.turn()
	}
	var rs [32]Result
	for i := range 2 {
		c.cq[i].Fetch(rs[:])
		if n := c.eng[i].Stats().Connections; int(n) > 4+c.shots {
			c.t.Fatalf("%d connections after %d packets", n, c.shots)
		}
	}
}

// request posts a valid request.
func (c *conversation) request(side int, qp [2]*QP, kind byte, n uint32) {
	own, other := fuzzRegions()[side], fuzzRegions()[1-side]
	n %= 20000
	r := &listed{SGL: []SGE{{Addr: own.Base(), Len: n, Token: own.Token()}}, Request: Request{Kind: []RequestKind{KindWrite, KindSend, KindRead}[kind%3], Length: n, Addr: other.Base(), Token: other.Token()}}
	if r.Kind == KindSend {
		c.excuse = true
		n %= 9000
		r.Length, r.SGL[0].Len = n, n
	}
	_, _ = r.post(qp[side])
	c.turn()
}

// attacked reports whether a packet belongs to the attacked connection.
func (c *conversation) attacked(f flight) bool {
	return slices.Contains(c.ids[:], f.id())
}

// id returns the connection id of a packet.
func (f flight) id() uint64 { return binary.BigEndian.Uint64(f.data[8:]) }

func (c *conversation) lose() {
	c.excuse = true
	kept := c.air[:0]
	for _, f := range c.air {
		if !c.attacked(f) {
			kept = append(kept, f)
		}
	}
	c.air = kept
}

// replay injects a recorded packet, unchanged or changed.
func (c *conversation) replay() {
	f := c.log[int(c.byte())%len(c.log)]
	how := c.byte()
	f.data = append([]byte(nil), f.data...)
	for range how & 7 {
		at := c.word() % len(f.data)
		f.data[at] ^= c.byte()
	}
	if how&0x20 != 0 {
		f.data = f.data[:1+c.word()%len(f.data)]
	}
	if how&0x40 != 0 {
		f.data = append(f.data, make([]byte, c.byte()&15)...)
	}
	c.shoot(f, how&0x10 != 0)
}

// invent injects a packet with valid addresses, ids and numbers, an offset at or near the next one, and arbitrary contents.
func (c *conversation) invent(side int) {
	how := c.byte()
	n := min(int(c.byte()), len(c.in))
	body := c.in[:n]
	c.in = c.in[n:]
	victim := c.eng[side].group.conns.lookup(c.ids[side])
	if victim == nil {
		return
	}
	victim.leaveIdle() // sets the numbers that the forged packet uses
	sp := how >> 7
	fields := wire.BaseFields{ConnID: victim.identity.id, Number: victim.traffic.received.numbers.Largest() + uint64(how>>3&3)}
	if how&7 > 0 {
		at := victim.traffic.received.spaces[sp].next
		if ahead := how >> 3 & 3; ahead > 0 {
			at = space.At(at.Message()+uint32(ahead-1), uint32(c.word()))
		}
		fields.Operations, fields.Piece = how&4 == 0, how&4 != 0
		fields.Message, fields.Offset = at.Message(), at.Offset()
		fields.Flags = wire.Flags(sp) * wire.FlagSpace
		if fields.Piece && how&0x20 != 0 {
			fields.Flags |= wire.FlagEnd
		}
	}
	if how&0x40 != 0 && len(body) > 0 { // blocks, whose first byte selects packets that were sent
		fields.Flags |= wire.FlagAck
		if how&0x20 != 0 {
			fields.Flags |= wire.FlagReport
		}
		a := wire.Ack{Largest: uint32(victim.traffic.sent.packets.Next()) - 1 - uint32(body[0]&7), N: 1}
		a.Ranges[0].Last = uint32(body[0] >> 3)
		body = append(a.Append(nil), body[1:]...)
	}
	c.shootAt(side, victim, &fields, body)
}

// shootAt injects a packet of a hostile peer: with a right checksum, or sealed with the key that the victim expects.
func (c *conversation) shootAt(side int, victim *conn, fields *wire.BaseFields, body []byte) {
	data := make([]byte, wire.BaseHeaderLen)
	f := flight{side, victim.identity.remote, wire.Endpoint{IP: pairIP[side], Port: wire.DefaultPort}, nil}
	k := victim.end.keys
	if k == nil {
		wire.PutBaseHeader(data, fields)
		f.data = append(data, body...)
		c.shoot(f, true)
		return
	}
	c.forged = true
	fields.Number++ // a number that came before would be a replay
	f.data = sealedFor(c.t, k.In.Secret(), k.In.Generation(), fields, body)
	c.shoot(f, false)
}

// sealedFor returns a packet that is sealed with a secret of the receiver.
func sealedFor(t *testing.T, secret *secure.Secret, generation uint32, fields *wire.BaseFields, body []byte) []byte {
	var k secure.Sealer
	if err := k.Install(generation, secret, 0); err != nil {
		t.Fatal(err)
	}
	fields.Flags |= wire.FlagSecure
	header := make([]byte, wire.BaseHeaderLen)
	wire.PutBaseHeader(header, fields)
	wire.PutGeneration(header, generation)
	return k.Seal(slices.Clone(header), body, header, fields.Number, fields.Message)
}

func (c *conversation) shoot(f flight, fix bool) {
	if fix && len(f.data) >= wire.BaseHeaderLen {
		seal(f.data)
		c.forged = true
	}
	c.shots++
	c.lane[f.to].arrive(f)
	c.turn()
}

// finish fails the test unless the honest connection works and nothing is left afterwards.
func (c *conversation) finish(ctr, others [2]*Connector, honest [2]*QP) {
	c.pass(10*time.Second, func() {})
	check := func(name string, qp [2]*QP) {
		for side := range 2 {
			cq := qp[side].initCQ
			var rs [64]Result
			cq.Fetch(rs[:])
			c.request(side, qp, 0, 3000)
			c.request(side, qp, 2, 3000)
			c.pass(time.Second, func() {})
			if n := cq.Fetch(rs[:]); n != 2 || rs[0].Outcome != OutcomeSuccess || rs[1].Outcome != OutcomeSuccess {
				c.t.Fatalf("%s: %d results %+v", name, n, rs[:n])
			}
		}
	}
	check("the other connection", honest)
	if !c.forged && (!c.excuse || c.qp[0].State() == QPReady && c.qp[1].State() == QPReady) {
		check("the attacked connection", c.qp)
	}
	for _, k := range []*Connector{ctr[0], ctr[1], others[0], others[1], c.ctr[0], c.ctr[1]} {
		k.Close()
	}
	c.l.Close()
	c.pass(time.Minute, func() {})
	if what := c.left(); what != "" {
		c.t.Fatal(what)
	}
}
