package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/wire"
)

// The search for the path MTU (PROTOCOL §9.6).

// pattern fills side 0's memory with bytes that depend on their address.
func (p *pair) pattern(n int) {
	for i := range n {
		p.reg[0].Bytes()[i] = byte(i * i >> 3)
	}
}

// transfer writes n bytes to the peer, reads them back behind the original, and fails the test if they differ.
func (p *pair) transfer(n uint32) {
	p.tb.Helper()
	p.pattern(int(n))
	clear(p.reg[0].Bytes()[1<<20:][:n])
	p.post(0, p.write(0, 0, n))
	r := p.read(0, n)
	r.SGL = p.sge(0, 1<<20, n)
	p.post(0, r)
	p.pass(2 * time.Second)
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	if !slices.Equal(p.reg[0].Bytes()[1<<20:][:n], p.reg[0].Bytes()[:n]) {
		p.tb.Fatal("the bytes that came back are not those that were sent")
	}
}

// The first data that fill a packet start the search with a probe of the largest size. One round trip later that size is in use.
// Connections that send little or are idle send no probe and have no timer.
func TestPathSearchTakesOneRoundTrip(t *testing.T) {
	for _, size := range []int{1201, 1472, 8972, 65507} {
		p := newPair(t, size).connect()
		largest := 0
		p.link[1].mangle = func(b []byte) bool {
			largest = max(largest, len(b))
			return true
		}
		for range 20 {
			p.post(0, p.write(0, 0, 512))
			p.runUntilIdle()
		}
		if s := p.eng[0].Stats(); s.PathProbes != 0 || p.conn(0).mtu.Packet != wire.MinPacket {
			t.Fatalf("%d: small messages sent %d probes", size, s.PathProbes)
		}
		p.post(0, p.write(0, 0, 200000))
		p.turn() // the first packets and the probe
		if p.conn(0).mtu.Packet != wire.MinPacket {
			t.Fatalf("%d: packets of %d bytes before anything was known", size, p.conn(0).mtu.Packet)
		}
		p.turn() // the answer
		if int(p.conn(0).mtu.Packet) != size {
			t.Errorf("%d: packets of %d bytes after a round trip", size, p.conn(0).mtu.Packet)
		}
		p.runUntilIdle()
		if s := p.eng[0].Stats(); s.PathProbes != 1 || s.PathRaised != 1 || p.conn(0).traffic.sent.search.At < p.now {
			t.Errorf("%d: %d probes, %d answered, next at %v", size, s.PathProbes, s.PathRaised, p.conn(0).traffic.sent.search.At)
		}
		if p.conn(1).mtu.Packet != wire.MinPacket || p.eng[1].Stats().PathProbes != 0 {
			t.Errorf("%d: the side that sends nothing probed", size)
		}
	}
}

// Whatever the path MTU, the search ends with the largest likely size that the path carries, after a bounded number of probes. Data
// never wait for the search (PROTOCOL §9.6).
func TestPathSearchFindsEverySize(t *testing.T) {
	for _, limit := range []int{1200, 1251, 1252, 1391, 1392, 1471, 1472, 1473, 2016, 4000, 4064, 8914, 8972, 9000, 16356, 32740, 60000, 65506, 65507} {
		for _, size := range []int{1472, 8972, 65507} {
			p := newPair(t, size).connect()
			p.link[1].narrow = limit
			want := wire.MinPacket
			for _, mtu := range []int{1280, 1420, 1450, 1476, 1492, 1500, 2044, 3498, 4092, 8942, 9000, 9216, 16384, 32768} {
				if n := mtu - 28; n <= limit && n <= size {
					want = n
				}
			}
			if size <= limit {
				want = size
			}
			for range 20 {
				p.transfer(100000)
			}
			if got := int(p.conn(0).mtu.Packet); got != want {
				t.Errorf("a path of %d between links of %d: %d, want %d", limit, size, got, want)
			}
			if int(p.conn(1).mtu.Packet) != size {
				t.Errorf("the way back carries %d, and %d are used", size, p.conn(1).mtu.Packet)
			}
			s := p.eng[0].Stats()
			if s.PathProbes > congestion.MaxProbes*(2+4) || s.Retransmits > 0 {
				t.Errorf("a path of %d between links of %d: %+v", limit, size, s)
			}
		}
	}
}

// A search that has ended starts again if the peer probes a larger size. In this test both sides get larger links one after the
// other, and the first side searches in between (PROTOCOL §9.6).
func TestProbesOfThePeerBeginASearch(t *testing.T) {
	p := newPair(t, 8972).connect()
	p.link[1].narrow = wire.MinPacket
	p.link[1].limit = wire.MinPacket // the first side's link is small
	p.eng[1].Resized()
	for range 20 {
		p.transfer(100000)
		p.pass(100 * time.Millisecond)
	}
	if s := p.conn(0).mtu.Packet; s != wire.MinPacket || p.conn(0).mtu.SearchAt(p.now) <= p.now {
		t.Fatalf("packets of %d bytes, and the search has not ended", s)
	}
	p.link[1].narrow = 0
	p.transfer(100000)
	if s := p.conn(0).mtu.Packet; s != wire.MinPacket {
		t.Fatalf("packets of %d bytes without a reason", s)
	}
	p.pass(time.Second) // both are idle
	p.link[1].limit = 0
	p.eng[1].Resized()
	for range 3 {
		p.transfer(100000)
	}
	if a, b := p.conn(0).mtu.Packet, p.conn(1).mtu.Packet; a != 8972 || b != 8972 {
		t.Errorf("packets of %d and %d bytes, want 8972", a, b)
	}
}

// The loss of up to two probes, or of their answers, does not change the result.
func TestLostProbesAreRepeated(t *testing.T) {
	for _, op := range []wire.Opcode{wire.CtlProbe, wire.CtlProbeAck} {
		for lost := range 3 {
			p := newPair(t, 8972).connect()
			p.loseFirst(map[wire.Opcode]int{wire.CtlProbe: 1, wire.CtlProbeAck: 0}[op], lost, op)
			for range 2 + lost {
				p.transfer(10000)
			}
			if s := p.eng[0].Stats(); p.conn(0).mtu.Packet != 8972 || s.PathProbes != uint64(lost+1) {
				t.Errorf("%d %v lost: packets of %d bytes after %d probes", lost, op, p.conn(0).mtu.Packet, s.PathProbes)
			}
		}
	}
}

// If the path MTU falls in one direction, that direction uses smaller packets, outstanding data arrive, and the other direction
// does not change. If the path MTU rises again, the raise timer detects it, and nothing does so earlier.
func TestBlackHoleInOneDirection(t *testing.T) {
	p := newPair(t, 8972).connect()
	p.transfer(300000)
	if p.conn(0).mtu.Packet != 8972 || p.conn(1).mtu.Packet != 8972 {
		t.Fatal("not at the full size")
	}
	p.link[1].narrow = 1472
	for range 20 {
		p.transfer(300000)
	}
	s := p.eng[0].Stats()
	if p.conn(0).mtu.Packet != 1472 || s.BlackHoles == 0 || s.Retransmits < 8972/wire.MinPacket {
		t.Errorf("packets of %d bytes: %+v", p.conn(0).mtu.Packet, s)
	}
	if p.conn(1).mtu.Packet != 8972 || p.eng[1].Stats().BlackHoles != 0 {
		t.Errorf("the other direction: packets of %d bytes: %+v", p.conn(1).mtu.Packet, p.eng[1].Stats())
	}
	p.link[1].narrow = 0
	p.conn(0).leaveIdle()
	p.pass(p.conn(0).traffic.sent.search.At.Sub(p.now) - 10*time.Second)
	probes := p.eng[0].Stats().PathProbes
	p.transfer(300000)
	if p.eng[0].Stats().PathProbes != probes {
		t.Error("probed again before the raise timer")
	}
	p.pass(10 * time.Second)
	p.transfer(300000)
	if p.conn(0).mtu.Packet != 8972 || p.eng[0].Stats().PathProbes != probes+1 {
		t.Errorf("packets of %d bytes after the raise timer and %d probes", p.conn(0).mtu.Packet, p.eng[0].Stats().PathProbes-probes)
	}
}

// If the path MTU seemed to fall because the peer was descheduled, the old size is back after one round trip.
func TestBlackHoleThatWasNone(t *testing.T) {
	p := newPair(t, 8972).connect().warmedUp()
	p.transfer(300000)
	p.post(0, p.write(0, 0, 300000))
	end := p.now.Add(60 * time.Millisecond)
	for p.now < end { // the peer is descheduled
		p.eng[0].Run(p.now)
		p.now = p.now.Add(100 * time.Microsecond)
	}
	if p.eng[0].Stats().BlackHoles != 1 || p.conn(0).mtu.Packet != wire.MinPacket {
		t.Fatalf("packets of %d bytes: %+v", p.conn(0).mtu.Packet, p.eng[0].Stats())
	}
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
	p.transfer(300000)
	if p.conn(0).mtu.Packet != 8972 {
		t.Errorf("packets of %d bytes", p.conn(0).mtu.Packet)
	}
}

// If the MTU of the link falls, connections use smaller packets at once. If it rises, connections search.
func TestLinkIsResized(t *testing.T) {
	p := newPair(t, 8972).connect()
	p.transfer(300000)
	resize := func(n int) {
		p.link[0].maxPacket, p.link[1].narrow = n, n
		p.eng[0].Resized()
	}
	p.post(0, p.write(0, 0, 300000))
	p.link[1].narrow = 1472
	p.eng[0].Run(p.now) // the packets leave
	resize(1472)
	if p.conn(0).mtu.Packet != 1472 {
		t.Errorf("packets of %d bytes over a link of 1472", p.conn(0).mtu.Packet)
	}
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
	p.transfer(300000)
	if s := p.eng[0].Stats(); s.Retransmits < 8972/1472 || s.BlackHoles != 0 {
		t.Errorf("%+v", s)
	}
	for _, n := range []int{4000, 65507, 1200, 8972} {
		resize(n)
		p.transfer(300000)
		if want := min(n, 8972); int(p.conn(0).mtu.Packet) != want { // the peer receives up to 8972 bytes
			t.Errorf("packets of %d bytes over a link of %d", p.conn(0).mtu.Packet, n)
		}
	}
}

// No packet and no probe exceeds the MTU of the route. While the route's MTU is unknown, no probe is sent. A change of the route
// applies at once, and does not affect the peer's packets.
func TestRouteLimitsPackets(t *testing.T) {
	p := newPair(t, 8972).connect()
	largest := 0
	p.link[1].mangle = func(b []byte) bool {
		largest = max(largest, len(b))
		return true
	}
	p.link[0].limit = -1
	p.transfer(300000)
	if s := p.eng[0].Stats(); s.PathProbes != 0 || largest > wire.MinPacket {
		t.Errorf("%d probes, and packets of %d bytes, before the MTU of the route was known", s.PathProbes, largest)
	}
	for _, c := range []struct{ limit, want int }{{1372, 1372}, {1300, 1300}, {0, 8972}, {4000, 4000}, {1000, wire.MinPacket}, {9000, 8972}} {
		p.link[0].limit = c.limit
		p.eng[0].Resized()
		largest = 0
		p.pass(time.Second) // until the search continues
		p.transfer(300000)
		p.transfer(300000)
		if got := int(p.conn(0).mtu.Packet); got != c.want || largest > c.want {
			t.Errorf("a route of %d: packets of %d bytes, the largest has %d, want %d", c.limit, got, largest, c.want)
		}
	}
	if got := p.conn(1).mtu.Packet; got != 8972 {
		t.Errorf("the peer sends packets of %d bytes", got)
	}
}

// A probe that gets no frames is sent later. Data have priority.
func TestProbeWaitsForFrames(t *testing.T) {
	p := newPair(t, 65507).connect()
	kept := p.link[0].txFree
	out := p.eng[0].out
	p.link[0].txFree, p.eng[0].out = kept[:0:0], packet.NewOut(p.link[0])
	for i := range uint64(4) {
		p.link[0].txFree = append(p.link[0].txFree, kept[i])
	}
	p.post(0, p.write(0, 0, 20000))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	if n := p.eng[0].Stats().PathProbes; n != 0 {
		t.Fatalf("%d probes without frames", n)
	}
	p.link[0].txFree, p.eng[0].out = kept[4:], out
	p.transfer(20000)
	p.transfer(200000)
	if p.conn(0).mtu.Packet != 65507 {
		t.Errorf("packets of %d bytes", p.conn(0).mtu.Packet)
	}
}

// Probe answers with the wrong nonce or size change nothing.
func TestForgedProbeAnswers(t *testing.T) {
	for name, change := range map[string]func(m *wire.Probe){
		"nonce":  func(m *wire.Probe) { m.Nonce++ },
		"larger": func(m *wire.Probe) { m.Size++ },
		"less":   func(m *wire.Probe) { m.Size-- },
	} {
		p := newPair(t, 1472).connect()
		p.link[1].narrow = 1400
		p.post(0, p.write(0, 0, 20000))
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
		s := &p.conn(0).traffic.sent.search
		if s.Size != 1472 {
			t.Fatalf("a probe of %d", s.Size)
		}
		m := wire.Probe{Nonce: s.Nonce, Size: s.Size}
		change(&m)
		f := p.forge(0)
		f.control(wire.CtlProbeAck, m.Append(nil))
		p.inject(0, f)
		p.runUntilIdle()
		if got := p.eng[0].Stats(); p.conn(0).mtu.Packet != wire.MinPacket || got.Drops[wire.DropState] != 1 {
			t.Errorf("%s: packets of %d bytes, %v", name, p.conn(0).mtu.Packet, got.Drops)
		}
	}
}

// The link MTU may change before the peer has stated its limit.
func TestLinkChangesBeforeThePeerIsKnown(t *testing.T) {
	m := newMeeting(t, 2)
	m.link[1].mangle = func([]byte) bool { return false }
	m.get().connect()
	m.eng[0].Resized()
	m.link[1].mangle = nil
	m.pass(time.Second)
	m.got.must(t, OutcomeSuccess)
}
