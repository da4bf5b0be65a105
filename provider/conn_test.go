package provider

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// beginAt puts a fresh connection into the state of one that has sent requests and answered READs: on both sides number is the next
// message of each space and the next index of the initiator queue.
func (p *pair) beginAt(number uint32) {
	for i := range 2 {
		c, peer := p.conn(i), p.conn(1-i)
		c.leaveIdle()
		peer.leaveIdle()
		q := &c.qp.sq
		q.head.Store(number)
		q.posted.Store(number)
		q.next = number
		c.traffic.sent.spaces[wire.RequestSpace].Reset(space.At(number, 0))
		c.requestNumbers.nextMessage, peer.traffic.received.spaces[wire.RequestSpace].next = number, space.At(number, 0)
		c.requestNumbers.nextRead = number
		c.traffic.requests.reads.Start(number)
		peer.traffic.served.Start(number)
		peer.traffic.sent.spaces[wire.ResponseSpace].Reset(space.At(number, 0))
		c.traffic.received.spaces[wire.ResponseSpace].next = space.At(number, 0)
	}
}

// TestMessageNumbersWrapUnderTraffic: message numbers of both spaces wrap around while packets are lost, both the full 32 bits and
// the 16 bits in packets.
func TestMessageNumbersWrapUnderTraffic(t *testing.T) {
	for _, round := range []uint32{1 << 16, 1 << 31, 0} {
		p := newPair(t, 1408).connect()
		p.beginAt(round - 20)
		for i := range 2 {
			p.link[i].loseNth = 9
		}
		for i := range 200000 {
			p.reg[0].Bytes()[i] = byte(i >> 4)
		}
		for i := range uint32(50) {
			w, r := p.write(0, i*4000, 4000), p.read(i*4000, 4000)
			r.SGL = p.sge(0, 1<<20+i*4000, 4000)
			p.post(0, w)
			p.post(0, r)
			p.post(0, &listed{Request: Request{Kind: KindWrite}})
		}
		p.pass(time.Second)
		if rs := p.results(0); len(rs) != 150 || slices.ContainsFunc(rs, func(r Result) bool { return r.Outcome != OutcomeSuccess }) {
			t.Fatalf("round %#x: %d results: %+v", round, len(rs), rs)
		}
		if !slices.Equal(p.reg[0].Bytes()[1<<20:][:200000], p.reg[0].Bytes()[:200000]) {
			t.Errorf("round %#x: wrong bytes", round)
		}
		for sp, want := range []uint32{round - 20 + 150, round - 20 + 50} {
			if next := p.conn(sp).traffic.sent.spaces[sp].Next(); next != space.At(want, 0) {
				t.Errorf("round %#x: space %d is at %x, want message %x", round, sp, next, want)
			}
		}
	}
}

// TestOneMessageOfManyPackets: one message has more segments than a window, and is sent while the 16 bits of message numbers in
// packets wrap around.
func TestOneMessageOfManyPackets(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.beginAt(math.MaxUint16)
	p.link[1].loseNth = 50
	p.fill(0, 0, 3<<20, 5)
	p.post(0, p.write(0, 0, 3<<20))
	p.post(0, p.write(0, 0, 8))
	p.pass(5 * time.Second)
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	if !p.all(1, 0, 3<<20, 5) {
		t.Error("wrong bytes")
	}
}

// vanish removes a connection as if its host had restarted.
func (c *conn) vanish() {
	c.phase = phaseLingering
	c.free()
}
