package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// A receiver whose memory for packets behind a gap fills up reports it, and the sender slows down.
func TestLoadIsReported(t *testing.T) {
	p := newPair(t, 1408).connect()
	store := &p.eng[1].store
	var others [4]space.Gaps // each holds a fifth of the memory
	for i := range uint32(store.Limit() / 5 / wire.MaxPacket) {
		for j := range others {
			others[j].Hold(store, space.At(i, 0), space.At(i+1, 0), wire.MaxPacket, 0)
		}
	}
	for range 4 {
		p.post(0, p.write(0, 0, 60*1344))
		p.pass(time.Millisecond)
	}
	if w := p.conn(0).traffic.sent.cc.EndpointWindow(); w == congestion.MaxWindow {
		t.Error("the sender did not hear of the load")
	}
}

// If the window is smaller than a packet, a timer decides when packets leave.
func TestPacing(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.write(0, 0, 1344)) // one round trip, for the estimate
	p.runUntilIdle()
	c := p.conn(0)
	c.rtt.Smoothed = 100 * time.Microsecond
	p.eng[0].controller = &congestion.Fixed{Bytes: 1408 / 4}
	c.traffic.sent.cc.Reset(p.eng[0].controller, int(c.mtu.Packet))
	c.traffic.sent.cc.Conclude(p.eng[0].controller, congestion.Path{Now: p.now, Smoothed: c.rtt.Smoothed})
	c.traffic.sent.cc.Left(p.now)
	if gap := c.traffic.sent.cc.PacedUntil(p.now).Sub(p.now); c.traffic.sent.cc.Window != 1408 || gap != 400*time.Microsecond {
		t.Fatalf("window %d, gap %v", c.traffic.sent.cc.Window, gap)
	}
	sent := []clock.Time{}
	p.link[1].mangle = func(b []byte) bool {
		if sequenced(b) {
			sent = append(sent, p.now)
		}
		return true
	}
	p.post(0, p.write(0, 0, 5*1344))
	p.pass(10 * time.Millisecond)
	if len(sent) != 5 {
		t.Fatalf("%d packets", len(sent))
	}
	for i := 1; i < len(sent); i++ {
		if d := sent[i].Sub(sent[i-1]); d < 20*time.Microsecond {
			t.Errorf("packet %d left %v after the one before", i, d)
		}
	}
	if s := p.eng[0].Stats(); s.Timeouts != 0 {
		t.Errorf("%d time-outs", s.Timeouts)
	}
}

// The peer did not poll for 5 ms. Its ACK block reports that, and the sender takes no round-trip sample from it (PROTOCOL §3.5).
func TestAwayPeer(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.write(0, 0, 100))
	p.runUntilIdle()
	before := p.conn(0).traffic.sent.cc.Delay()
	p.eng[1].turns.Watch(false)
	p.post(0, p.write(0, 0, 100))
	p.now += 1000
	p.eng[0].Run(p.now)
	p.eng[1].Run(p.now)
	p.post(0, p.write(0, 0, 10*1344)) // enough packets for an immediate acknowledgement
	p.now += 1000
	p.eng[0].Run(p.now)
	p.now += clock.Time(5 * time.Millisecond)
	told := p.hearAcks()
	p.eng[1].Run(p.now)
	p.runUntilIdle()
	if !slices.ContainsFunc(*told, func(a wire.Ack) bool { return a.Flags&wire.AckAway != 0 }) {
		t.Error("the peer did not say that it was away")
	}
	if d := p.conn(0).traffic.sent.cc.Delay(); d > 2*before+10*time.Microsecond {
		t.Errorf("delay %v, before %v", d, before)
	}
}

// fixed sets both connections' windows to a small constant.
func (p *pair) fixed(packets int) {
	for i := range 2 {
		p.eng[i].controller = &congestion.Fixed{Packets: packets}
		p.conn(i).traffic.sent.cc.Reset(p.eng[i].controller, int(p.conn(i).mtu.Packet))
	}
}

// READ responses and requests of one connection get equal shares of a small window.
func TestResponsesAndRequestsShare(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fixed(4)
	var bytes [wire.NumSpaces]int
	p.link[1].mangle = func(b []byte) bool {
		if h, _ := wire.ParseBaseHeader(b); !h.Control() {
			bytes[h.Space()] += int(p.conn(0).mtu.Packet)
		}
		return true
	}
	r := p.write(1, 1<<20, 1<<20)
	r.Kind = KindRead
	p.post(1, r)
	p.post(0, p.write(0, 0, 1<<20))
	for range 2000 {
		p.turn()
		if p.qp[0].sq.next != 0 || p.conn(0).traffic.sent.spaces[wire.ResponseSpace].Next().Message() != 0 {
			break // one of the two has finished
		}
	}
	if a, b := bytes[0], bytes[1]; a*10 < b*8 || b*10 < a*8 || a < 100<<10 {
		t.Errorf("requests %d bytes, responses %d", a, b)
	}
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
}

// The window bounds the bytes of outstanding READs, except that one READ is always allowed.
func TestReadsAreBoundedByTheWindow(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fixed(4)
	for i := range uint32(8) {
		p.post(0, p.read(i*4096, 4096))
	}
	p.turn()
	if n := p.conn(0).traffic.requests.reads.Waiting(); n != 2 { // 4 packets are 5,632 bytes: the second READ begins below that
		t.Errorf("%d READs are out", n)
	}
	p.runUntilIdle()
	if n := len(p.results(0)); n != 8 {
		t.Errorf("%d READs done", n)
	}
	r := &p.conn(0).traffic.requests.reads
	if r.Add(0, 1); r.Fill(2) {
		t.Error("bytes that came are still counted")
	}
}

// If the window has one packet, a request still leaves although each acknowledgement arrives with a READ, whose answer could use up
// the window again.
func TestRequestsLeaveBesideAnswers(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	p.fixed(1)
	read := func() {
		r := p.write(1, 0, 100)
		r.Kind = KindRead
		p.post(1, r)
	}
	read()
	p.turn()
	p.post(0, p.write(0, 0, 64))
	for answers := 0; len(p.results(0)) == 0; p.turn() {
		p.conn(0).apply(wantTurn) // the engine examines the connection with each arriving packet
		for range p.results(1) {
			if answers++; answers > 10 {
				t.Fatal("a Write waits while ten READs are answered")
			}
			read()
		}
	}
}
