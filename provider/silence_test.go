package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
)

// An idle connection keeps its packet numbers. However long the silence was, the peer's next packet counts as the newest.
var silences = []time.Duration{
	time.Second, 2200 * time.Millisecond, 3 * time.Second, 4200 * time.Millisecond, 5 * time.Second, 7 * time.Second, 9 * time.Second,
}

func TestNumbersAfterSilence(t *testing.T) {
	for _, silence := range silences {
		p := newPair(t, 1408).connect()
		p.post(0, p.write(0, 0, 100))
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
		p.pass(silence)
		p.post(0, p.write(0, 0, 100))
		sent := p.now
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
		c, peer := p.conn(1), p.conn(0)
		if c.traffic.received.numbers.At() < sent || c.traffic.received.numbers.Largest()+1 != peer.traffic.sent.packets.Next() {
			t.Errorf("after %v the newest packet is number %d, want %d", silence, c.traffic.received.numbers.Largest(), peer.traffic.sent.packets.Next()-1)
		}
	}
}

// RNR applies after any silence: the sender pauses, does not retransmit, and counts nothing as lost.
func TestPauseAfterSilence(t *testing.T) {
	for _, silence := range silences {
		p := newPair(t, 1408)
		srq := NewSharedReceiveQueue(64, 1, 0)
		p.qp[1] = p.eng[1].NewQP(QPConfig{ReceiveCQ: p.cq[1], InitiatorCQ: p.cq[1], InitiatorDepth: 16, MaxInitiatorSGE: 1, Shared: srq})
		p.connect()
		_, o := srq.Post(1, p.sge(1, 0, 100), 100)
		p.must(o)
		p.runUntilIdle()
		p.post(0, p.send(0, 50))
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
		p.pass(silence)
		before := p.eng[0].Stats()
		p.post(0, p.send(0, 50)) // finds no receive
		p.pass(500 * time.Millisecond)
		s := p.eng[0].Stats()
		if s.Timeouts != before.Timeouts || s.Pauses != before.Pauses+1 || !p.conn(0).traffic.sent.paused {
			t.Errorf("after %v: %d pauses and %d time-outs, paused %v; want one pause", silence, s.Pauses-before.Pauses, s.Timeouts-before.Timeouts, p.conn(0).traffic.sent.paused)
		}
	}
}

// A packet that was overtaken is not the newest, whatever silence preceded both packets.
func TestOvertakenAfterSilence(t *testing.T) {
	for _, silence := range silences {
		p := newPair(t, 1408).connect()
		p.pass(silence)
		c := p.conn(1)
		c.leaveIdle()
		in, newest := &c.engine.in, c.traffic.received.numbers.Largest()
		c.traffic.received.heard(newest + 2)
		if in.overtaken || in.number != newest+2 {
			t.Errorf("after %v the newest packet has number %d, overtaken %v", silence, in.number, in.overtaken)
		}
		if c.traffic.received.heard(newest + 1); !in.overtaken || in.number != newest+1 {
			t.Errorf("after %v the packet before it has number %d, overtaken %v", silence, in.number, in.overtaken)
		}
	}
}

// Two clocks differ by 50 parts in a million, and the sides send alternately, seconds apart. Packets held for so long are no
// round-trip samples: the minimum round trip remains that of the path.
func TestClockDriftLeavesTheLeastRoundTrip(t *testing.T) {
	const oneWay = 100 * time.Microsecond
	for _, slower := range []int{0, 1} { // whose clock is behind
		p := newPair(t, 1408)
		p.connect()
		start := p.now
		run := func(side int) {
			at := p.now
			if side == slower {
				at = at.Add(-p.now.Sub(start) / 20000)
			}
			p.eng[side].Run(at)
		}
		for round := range 8 {
			for side := range 2 {
				if round == 1 {
					p.conn(side).rtt = recovery.RTT{} // removes the shorter round trips of the handshake
				}
				p.post(side, p.write(side, 0, 100))
				for range 6 {
					run(side)
					p.now = p.now.Add(oneWay)
					run(1 - side)
					p.now = p.now.Add(oneWay)
				}
				p.results(side)
				p.now = p.now.Add(2 * time.Second)
			}
		}
		for side := range 2 {
			if least := p.conn(side).rtt.Min; least < 2*oneWay-oneWay/10 {
				t.Errorf("clock of side %d is behind: side %d measured a round trip of %v on a path of %v", slower, side, least, 2*oneWay)
			}
		}
	}
}
