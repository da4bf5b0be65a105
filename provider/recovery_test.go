package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// An ACK block acknowledges exactly the packet numbers that it names. If a later block arrived first, the earlier block does not
// acknowledge more.
func TestOvertakenACK(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.link[1].mangle = func([]byte) bool { return false }
	p.post(0, p.write(0, 0, 20*1344))
	p.turn()
	c := p.conn(0)
	var numbers []uint64 // packet numbers of the packets with requests
	for n := c.traffic.sent.packets.Oldest(); n < c.traffic.sent.packets.Next(); n++ {
		if c.traffic.sent.packets.Packet(n).Kind == recovery.Requests {
			numbers = append(numbers, n)
		}
	}
	tell := func(by uint32, first, last uint64) {
		a := &wire.Ack{Largest: uint32(last), Delay: wire.AckDelayUnknown, N: 1}
		a.Ranges[0].Last = uint32(last - first)
		f := &forged{from: c.identity.remote, fields: wire.BaseFields{ConnID: c.identity.id, Number: c.traffic.received.numbers.Largest() + uint64(by)}}
		f.alone(a)
		p.inject(0, f)
	}
	tell(2, numbers[0], numbers[2])
	tell(1, numbers[6], numbers[6])
	p.eng[0].Run(p.now)
	sp := &c.traffic.sent.spaces[0]
	if sp.Una() != c.traffic.sent.packets.Packet(numbers[3]).From {
		t.Fatalf("acknowledged up to %x", sp.Una())
	}
	for i, n := range numbers[3:] {
		sent := c.traffic.sent.packets.Packet(n)
		if got := sent.State&recovery.Acked != 0; got != (i == 3) {
			t.Errorf("packet %d acknowledged: %v", i+3, got)
		}
		if hole, missing := sp.Hole(sent.From, sent.To); missing == (i == 3) {
			t.Errorf("packet %d: %x has not arrived: %v", i+3, hole.From, missing)
		}
	}
	if sp.Beyond() != int(c.traffic.sent.packets.Packet(numbers[6]).Size) {
		t.Errorf("%d bytes arrived beyond the oldest that is missing", sp.Beyond())
	}
}

// A burst of losses at the end of a flight is repaired in a few round trips, because the acknowledgement of the probe reveals the
// lost packets.
func TestBurstLossIsRepairedQuickly(t *testing.T) {
	for _, kind := range []RequestKind{KindWrite, KindRead} {
		p := newPair(t, 1408).connect()
		for i := range 60 * 1344 {
			p.reg[0].Bytes()[i], p.reg[1].Bytes()[1<<20:][i] = byte(i), byte(i)
		}
		side := 1
		if kind == KindRead {
			side = 0
		}
		n := 0
		p.link[side].mangle = func(b []byte) bool {
			if sequenced(b) {
				n++
			}
			return !sequenced(b) || n < 10 || n > 60
		}
		p.post(0, p.write(0, 0, 100)) // one round trip, for the estimate
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
		for i := range 2 { // the whole message in one flight
			p.conn(i).traffic.sent.cc.Reset(&congestion.Fixed{Packets: 64}, int(p.conn(i).mtu.Packet))
		}
		if kind == KindWrite {
			p.post(0, p.write(0, 0, 60*1344))
		} else {
			p.post(0, &listed{SGL: p.sge(0, 2<<20, 60*1344), Request: Request{Kind: KindRead, Length: 60 * 1344, Addr: p.reg[1].Base() + 1<<20, Token: p.reg[1].Token()}})
		}
		p.pass(20 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
		got := p.reg[1].Bytes()
		if kind == KindRead {
			got = p.reg[0].Bytes()[2<<20:]
		}
		if !slices.Equal(got[:60*1344], p.reg[0].Bytes()[:60*1344]) {
			t.Error("wrong bytes")
		}
	}
}

// The answer to a probe reveals lost packets. If their retransmissions are lost too, another probe reveals that, without a
// time-out.
func TestAnsweredProbeIsFollowedByAnother(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.write(0, 0, 100)) // one round trip, for the estimate
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.fixed(16)
	n := 0
	p.link[1].mangle = func(b []byte) bool {
		if sequenced(b) {
			n++
		}
		return n < 4 || n == 7 || n > 9 // of six packets, lose 4 to 6; deliver the probe, which is 6 again; lose the retransmitted 4 and 5
	}
	p.post(0, p.write(0, 0, 6*1100))
	p.pass(recovery.InitialRTO / 2)
	p.outcomes(0, OutcomeSuccess)
	if s := p.eng[0].Stats(); s.Probes != 2 || s.Timeouts != 0 {
		t.Errorf("%d probes, %d time-outs", s.Probes, s.Timeouts)
	}
}

// If both spaces have packets that may be lost, the timer is that of the oldest one.
func TestReorderingTimerOfBothSpaces(t *testing.T) {
	p := newPair(t, 1408).connect()
	c := p.conn(0)
	c.rtt = recovery.RTT{Smoothed: time.Millisecond, Min: time.Millisecond}
	for range 3 {
		for space := range c.traffic.sent.spaces {
			sp := &c.traffic.sent.spaces[space]
			from := sp.Next()
			sp.Sent(from.NextMessage())
			at := p.now.Add(time.Duration(space) * 10 * time.Microsecond)
			c.traffic.sent.packets.Add(recovery.Packet{At: at, From: from, To: sp.Next(), Size: 100, Kind: recovery.Kind(space)})
		}
	}
	newest := c.traffic.sent.packets.Add(recovery.Packet{At: p.now.Add(100 * time.Microsecond), Kind: recovery.Nothing})
	c.traffic.sent.packets.Acknowledge(newest)
	c.traffic.sent.detectLoss()
	if want := p.now.Add(time.Millisecond + c.rtt.Reorder()); c.traffic.sent.loss.ReorderAt() != want {
		t.Errorf("timer at %d, want %d", c.traffic.sent.loss.ReorderAt(), want)
	}
}

// A time-out is reverted as spurious if an acknowledgement shows that the first transmission had arrived (PROTOCOL §9.3).
func TestTimeoutThatWasNone(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	for range 20 {
		p.post(0, p.write(0, 0, 1000))
		p.runUntilIdle()
	}
	p.results(0)
	window := p.conn(0).traffic.sent.cc.Window
	p.post(0, p.write(0, 0, 30*1344))
	for range 12 { // the peer is descheduled for a while
		p.eng[0].Run(p.now)
		p.now = p.now.Add(time.Millisecond)
	}
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	s := p.eng[0].Stats()
	if s.Timeouts == 0 || s.SpuriousTimeouts == 0 {
		t.Errorf("%+v", s)
	}
	if p.conn(0).traffic.sent.cc.Window < window {
		t.Errorf("window %d, before %d", p.conn(0).traffic.sent.cc.Window, window)
	}
}

func TestNoFramesIsBackPressureAndNoSpin(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.runUntilIdle()
	taken := p.link[0].txFree
	p.link[0].txFree = nil
	out := p.eng[0].out
	p.eng[0].out = packet.NewOut(p.link[0])
	p.post(0, p.write(0, 0, 10000))
	p.conn(0).traffic.received.ackNow()
	if p.eng[0].Run(p.now) {
		t.Fatal("busy without a frame to be busy with")
	}
	if at := p.eng[0].NextDeadline(); at != p.now.Add(starvedRetry) {
		t.Fatalf("next deadline in %v", at.Sub(p.now))
	}
	p.link[0].txFree, p.eng[0].out = taken, out
	p.pass(time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
}

// The loss of every n-th packet, in either direction and at every offset, ends with the same memory: packets are executed once and
// in order (I4).
func TestEveryNthPacketLost(t *testing.T) {
	for nth := 2; nth < 12; nth++ {
		for _, size := range []int{1408, 8972} {
			p := newPair(t, size).connect()
			p.link[0].loseNth, p.link[1].loseNth = nth, nth
			for i := range 300000 {
				p.reg[0].Bytes()[i] = byte(i * i >> 3)
			}
			p.post(0, p.write(0, 0, 300000))
			p.post(0, &listed{SGL: p.sge(0, 1<<20, 300000), Request: Request{Kind: KindRead, Length: 300000, Addr: p.reg[1].Base(), Token: p.reg[1].Token()}})
			p.pass(5 * time.Second)
			p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
			if !slices.Equal(p.reg[0].Bytes()[1<<20:][:300000], p.reg[0].Bytes()[:300000]) {
				t.Errorf("every %d. of %d bytes: wrong bytes", nth, size)
			}
		}
	}
}

// The time limit NoReceive of a SEND starts when the requests before it have arrived, because on a bad path that can take longer
// than NoReceive.
func TestLossIsNoMissingReceive(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(1, 1<<20, 20000)
	var let clock.Time
	p.link[1].mangle = func(b []byte) bool { // one packet in 800 ms
		if !sequenced(b) {
			return true
		}
		if p.now.Sub(let) < 800*time.Millisecond {
			return false
		}
		let = p.now
		return true
	}
	p.post(0, p.send(0, 6*1300))
	p.post(0, p.send(0, 100))
	p.pass(4 * time.Second)
	if c := p.conn(0); c == nil || !c.traffic.sent.spaces[0].Outstanding() {
		t.Fatal("the first SEND is through, or the connection is over")
	}
	p.link[1].mangle = nil
	p.pass(2 * time.Second)
	p.outcomes(0, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
	p.receive(1, 1<<20, 20000)
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
}

// The SEND waits for NoReceive from then on, and no longer.
func TestMissingReceiveAfterLoss(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	p.receive(1, 1<<20, 20000)
	p.loseFirst(1, 3, wire.OpSend)
	p.post(0, p.send(0, 100))
	p.post(0, p.send(0, 100))
	p.pass(100 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	p.pass(1800 * time.Millisecond)
	p.outcomes(0)
	p.pass(300 * time.Millisecond)
	p.outcomes(0, OutcomeIOTimeout)
}

// The first round trips say nothing about a queue that many connections are about to fill. As long as few data packets were
// acknowledged, the time-out stays as long as the initial one.
func TestFirstTimeoutsAreLong(t *testing.T) {
	p := newPair(t, 1408).connect()
	for done := range recovery.SettledAfter {
		if got := p.conn(0).rtt.Timeout(minRTO); got != recovery.InitialRTO {
			t.Fatalf("after %d acknowledgements: %v, want %v", done, got, recovery.InitialRTO)
		}
		p.post(0, p.write(0, 0, 64))
		p.pass(time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
	}
	if got, want := p.conn(0).rtt.Timeout(minRTO), minRTO; got != want {
		t.Errorf("after %d acknowledgements: %v, want %v", recovery.SettledAfter, got, want)
	}
}

// Packets of one poll have one transmit time. If one of them is lost and a later one arrives, the loss is detected without a probe,
// in either space: a round trip and the reordering window after the packet was sent.
func TestLossWithinATurnNeedsNoProbe(t *testing.T) {
	const packets = 16
	for _, kind := range []RequestKind{KindWrite, KindRead} {
		for _, lost := range []int{1, 2, packets / 2, packets - 1} {
			p := newPair(t, 1408).connect().warmedUp()
			from := 0
			if kind == KindRead {
				from = 1
			}
			request := func(n uint32) {
				r := p.write(0, 0, n)
				r.Kind = kind
				p.post(0, r)
			}
			for range 100 { // round trips for the estimate
				request(100)
				p.runUntilIdle()
			}
			p.results(0)
			n := 0
			p.link[1-from].mangle = func(b []byte) bool {
				if sequenced(b) && kind == KindWrite || opcode(b) == wire.OpReadResp {
					n++
				}
				return n != lost || !sequenced(b)
			}
			c := p.conn(from)
			c.traffic.sent.cc.Reset(&congestion.Fixed{Packets: 64}, int(c.mtu.Packet))
			before := p.eng[from].Stats()
			start := p.now
			request(packets * 1344)
			for p.cq[0].Empty() && p.now.Sub(start) < time.Second {
				p.turn()
			}
			p.outcomes(0, OutcomeSuccess)
			s := p.eng[from].Stats()
			if took, want := p.now.Sub(start), 2*c.rtt.Smoothed+c.rtt.Reorder()+20*time.Microsecond; s.Probes != before.Probes || took > want {
				t.Errorf("%v without packet %d of %d: %v and %d probes, want %v and none", kind, lost, packets, took, s.Probes-before.Probes, want)
			}
		}
	}
}

// A peer that was descheduled for seconds, with packets lost because its ring was full, gets them soon after it is back. Its first
// acknowledgement shows that it is back, and the time-outs during its absence do not prolong the next one.
func TestWhatAnAbsentPeerMissedComesSoonAfterItIsBack(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	n := 0
	p.link[1].mangle = func(b []byte) bool {
		if sequenced(b) {
			n++
		}
		return n > 1 && n < 6
	}
	p.link[1].stamp = p.now // the true arrival times, so that the absence does not look like a round trip
	p.post(0, p.write(0, 0, 5*1300))
	for range 1600 {
		p.eng[0].Run(p.now)
		p.now = p.now.Add(time.Millisecond)
	}
	p.link[1].mangle, p.link[1].stamp = nil, 0
	back := p.now
	p.turn()
	wait := p.conn(0).traffic.sent.loss.TimerAt().Sub(back)
	p.pass(2 * recovery.InitialRTO)
	if rs := p.results(0); len(rs) != 1 {
		t.Errorf("%d results; the timer was %v after the peer was back, after %d time-outs", len(rs), wait, p.eng[0].Stats().Timeouts)
	}
}
