package provider

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/wire"
)

// These tests use the traffic of a connection without a handshake: its engine has no table entry for it.

// shelf is a link that keeps the packets that are sent.
type shelf struct {
	link.Cut
	sent [][]byte
}

func (s *shelf) Frames(dst []Frag) int {
	for i := range dst {
		dst[i].Data = make([]byte, FrameSize)
	}
	return len(dst)
}

func (s *shelf) Transmit(pkts []TxPacket) {
	for i := range pkts {
		var b []byte
		for _, f := range pkts[i].Frags[:pkts[i].N] {
			b = append(b, f.Data...)
		}
		s.sent = append(s.sent, b)
	}
}

// stand is a traffic object with the objects that it depends on.
type stand struct {
	testing.TB
	traffic
	link *shelf
}

// newStand is one side of an open connection. Its peer begins with the same packet numbers.
func newStand(tb testing.TB) *stand {
	cfg := Config{}
	cfg.setDefaults()
	s := &stand{TB: tb, link: new(shelf)}
	rng := rand.New(rand.NewPCG(3, 4))
	e := NewGroup(cfg, []Link{s.link}, NewMemory(rng), rng)[0]
	e.now = clock.Time(time.Hour)
	c := &conn{engine: e, identity: identity{id: 7, peerID: 8, firstNumber: 100}, phase: phaseOpen, end: &notEnding, ird: 4, peerWindow: minWindow}
	c.mtu.Begin(wire.MaxPacket, true)
	c.mtu.Fit(nil, e.now, wire.MinPacket)
	s.begin(e, c, &idleState{next: 100, heard: 99, newest: space.Run{}})
	return s
}

// packets returns the packets sent since the last call.
func (s *stand) packets() [][]byte {
	s.engine.flush()
	sent := s.link.sent
	s.link.sent = nil
	return sent
}

// hear processes a packet of the peer.
func (s *stand) hear(b []byte) wire.DropReason {
	s.Helper()
	h, d := wire.ParseBaseHeader(b)
	p := &RxPacket{N: 1, Len: len(b)}
	p.Frags[0].Data = b
	if d != wire.DropNone || !p.Intact(h, uint64(h.Number()), uint32(h.Message())) {
		s.Fatalf("not intact: %v", d)
	}
	s.engine.in.came, s.engine.in.known = p.Came(s.engine.now)
	s.received.heard(uint64(h.Number()))
	if d := p.ReadBlocks(h, &s.engine.in.ack, &s.engine.in.report); d != wire.DropNone {
		s.Fatal(d)
	}
	if !s.takeBlocks(h.Flags()) {
		return wire.DropAckRange
	}
	if h.Control() {
		s.received.keep()
		return wire.DropNone
	}
	d, _ = s.receiveContents(p, h)
	return d
}

// wants returns what the traffic object has asked for since the last call.
func (s *stand) wants() wants {
	w := s.conn.wanted
	s.conn.wanted = 0
	return w
}

// Every packet has the next number, and each received packet is acknowledged once.
func TestOutboundNumbersPackets(t *testing.T) {
	a, b := newStand(t), newStand(t)
	a.say(wire.CtlPing, 0, make([]byte, wire.PingLen))
	a.sendReject(wire.RejectConsumer, nil)
	a.sendPing()
	total := 0
	for i, p := range a.packets() {
		h, _ := wire.ParseBaseHeader(p)
		if h.Number() != uint32(100+i) || h.ConnID() != 8 {
			t.Errorf("packet %d has number %d and id %d", i, h.Number(), h.ConnID())
		}
		b.hear(p)
		total += len(p)
	}
	if a.conn.counters.bytesOut != uint64(total) || total == 0 {
		t.Errorf("%d bytes, counted %d", total, a.conn.counters.bytesOut)
	}
	if !b.received.numbers.Untold() || !b.sendAck() || b.received.numbers.Untold() {
		t.Error("a packet number is not acknowledged exactly once")
	}
	a.hear(b.packets()[0])
	if a.sent.packets.Passed() != 102 {
		t.Errorf("all before %d is known to have arrived", a.sent.packets.Passed())
	}
}

// fly puts n packets of the response space into flight.
func (s *stand) fly(n int) {
	for range n {
		s.sent.makeRoom()
		from := s.sent.spaces[wire.ResponseSpace].Next()
		s.sent.spaces[wire.ResponseSpace].Sent(from.NextMessage())
		s.sent.packets.Add(recovery.Packet{At: s.engine.now, From: from, To: from.NextMessage(), Size: 100, Kind: recovery.Responses})
	}
}

// If far later packets are acknowledged, an earlier packet counts as lost, is retransmitted, and is reported to congestion control.
func TestTransmittedFindsLosses(t *testing.T) {
	s := newStand(t)
	s.fly(8)
	s.engine.now += clock.Time(time.Millisecond)
	p, was := s.sent.packets.Acknowledge(107)
	if p == nil || !s.sent.arrived(107, p, was) {
		t.Fatal("nothing arrived")
	}
	s.conn.rtt.Sample(s.engine.now.Sub(p.At))
	s.wants()
	s.engine.now += clock.Time(time.Second)
	s.sent.detectLoss()
	if w := s.wants(); s.engine.stats.PacketsLost != 7 || w&(wantTurn|wantVerdict) != wantTurn|wantVerdict {
		t.Errorf("%d lost, wants %b", s.engine.stats.PacketsLost, w)
	}
	again, ok := s.sent.spaces[wire.ResponseSpace].Again()
	if !ok || again.From != space.At(0, 0) || again.Losses != 1 {
		t.Errorf("again %+v, %v", again, ok)
	}
	if what := s.sent.forgotten(recovery.Responses); what != "" {
		t.Error(what)
	}
}

// A connection remembers a growing number of transmissions. Beyond the limit the oldest counts as lost.
func TestTransmittedMakesRoom(t *testing.T) {
	s := newStand(t)
	s.fly(shortNumbers)
	if len(s.sent.packets.Ring()) != shortNumbers {
		t.Errorf("it grew to %d before it was full", len(s.sent.packets.Ring()))
	}
	s.fly(1)
	if len(s.sent.packets.Ring()) != 4*shortNumbers || s.engine.stats.PacketsLost != 0 {
		t.Errorf("ring of %d, %d lost", len(s.sent.packets.Ring()), s.engine.stats.PacketsLost)
	}
	s.fly(maxNumbers)
	if len(s.sent.packets.Ring()) != maxNumbers || s.engine.stats.PacketsLost != shortNumbers+1 {
		t.Errorf("ring of %d, %d lost", len(s.sent.packets.Ring()), s.engine.stats.PacketsLost)
	}
	pools := s.engine
	if s.rest(trace.LimitHistory{}); pools.pools.numbersOf(maxNumbers).Out() != 0 {
		t.Error("the ring was not given back")
	}
}

// A SEND without a receive is taken back in every report until the peer has acknowledged one. RNR is repeated until there is a
// receive.
func TestReceivingTakesBack(t *testing.T) {
	a, b := newStand(t), newStand(t)
	a.sendPing()
	b.hear(a.packets()[0])
	b.conn.qp = &QP{rq: newReceiveQueue(1, 1)}
	b.received.starve()
	if w := b.wants(); w&wantAck == 0 || b.engine.stats.Drops[wire.DropNoReceive] != 1 {
		t.Errorf("wants %b", w)
	}
	tell := func() *wire.Report {
		b.sendAck()
		if d := a.hear(b.packets()[0]); d != wire.DropNone {
			t.Fatal(d)
		}
		return &a.engine.in.report
	}
	if r := tell(); r.Flags != wire.ReportTakenBack|wire.ReportRNR {
		t.Errorf("report %+v", r)
	}
	b.received.confirmTaken(100, 100)
	if r := tell(); r.Flags != wire.ReportTakenBack|wire.ReportRNR {
		t.Errorf("RNR ended without a receive: %+v", r)
	}
	b.conn.receives.Wait.Promise()
	tell()
	b.received.confirmTaken(101, 102)
	if b.conn.receives.TakenBack() || b.conn.receives.Wait.State() != credit.Promised {
		t.Error("reported to a peer that knows it already")
	}
}

// TERM replaces the data to be sent, and each side learns that the connection has ended.
func TestTrafficEndsByTerm(t *testing.T) {
	a, b := newStand(t), newStand(t)
	if a.refuse(&wire.Op{Opcode: wire.OpWrite, Message: 5}, wire.TermProtocol) || a.conn.faulted != faultTerminated || a.conn.why != CauseProtocol {
		t.Fatalf("fault %d, cause %d", a.conn.faulted, a.conn.why)
	}
	a.conn.faulted = faultNone
	if w := a.wants(); w&wantTurn == 0 || a.sendShare(mostShare) {
		t.Errorf("wants %b", w)
	}
	sent := a.packets()
	if len(sent) != 1 {
		t.Fatalf("%d packets", len(sent))
	}
	if d := b.hear(sent[0]); d != wire.DropNone || b.conn.faulted != faultNamed || b.conn.why != CauseRefusedThere {
		t.Errorf("%v, fault %d, cause %d", d, b.conn.faulted, b.conn.why)
	}
	b.sendAck()
	if d := a.hear(b.packets()[0]); d != wire.DropNone || a.conn.faulted != faultTold {
		t.Errorf("%v, fault %d", d, a.conn.faulted)
	}
}

// Packets behind a gap are stored and acknowledged at once, and executed when the gap closes.
func TestTrafficCarriesOutInOrder(t *testing.T) {
	a, b := newStand(t), newStand(t)
	for n := range uint32(3) {
		a.served.Add(&wire.Op{Opcode: wire.OpReadReq, Number: n, Message: n})
	}
	b.requests.numbers.noRequests = true // given up, so the answers are skipped
	var sent [][]byte
	for range 3 {
		from := a.sent.spaces[wire.ResponseSpace].Next()
		a.beginOperations()
		to, _ := a.packSpace(wire.ResponseSpace, from, from.NextMessage(), true)
		a.launch(wire.ResponseSpace, from, to)
		sent = append(sent, a.packets()...)
	}
	for _, i := range []int{2, 1} {
		if b.hear(sent[i]); b.wants()&wantAck == 0 || b.received.spaces[wire.ResponseSpace].next != 0 {
			t.Errorf("packet %d: next is %x", i, b.received.spaces[wire.ResponseSpace].next)
		}
	}
	if !b.received.gapsOpen() || b.received.gapDeadline(time.Second) != b.engine.now.Add(time.Second) {
		t.Error("no gap is open")
	}
	if b.hear(sent[0]); b.received.spaces[wire.ResponseSpace].next != space.At(3, 0) || b.received.gapsOpen() || b.received.gapDeadline(time.Second) != 0 {
		t.Errorf("next is %x", b.received.spaces[wire.ResponseSpace].next)
	}
	if d := b.hear(sent[1]); d != wire.DropDuplicate {
		t.Error(d)
	}
	b.sendAck()
	if a.hear(b.packets()[0]); a.sent.unacknowledged() || a.sent.packets.InFlight() != 0 {
		t.Errorf("%d bytes are in flight", a.sent.packets.InFlight())
	}
}
