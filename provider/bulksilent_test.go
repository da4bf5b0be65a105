package provider

import (
	"testing"
	"time"
)

// A sender stops using a failed bulk path also while the peer's READs are answered. Each acknowledged answer restarts the
// retransmission timer, so the timer alone never detects the failure (PROTOCOL §11.1).
func TestBulkDiesBesideAnswers(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect().warmedUp()
	dead, lost := false, 0
	p.watchLanes(func(*TxPacket) bool {
		if dead {
			lost++
		}
		return dead
	})
	p.stream(300_000)
	before := p.eng[0].Stats()
	dead = true
	p.post(0, p.write(0, 0, 40_000)) // leaves space in the window for answers
	answer := p.write(1, 400_000, 8)
	answer.Kind = KindRead
	p.post(1, answer)
	start, done, answers := p.now, time.Duration(0), 0
	for done == 0 && p.now.Sub(start) < time.Second {
		p.now = p.now.Add(50 * time.Microsecond)
		p.turn()
		for _, r := range p.results(1) {
			if r.Outcome != OutcomeSuccess {
				t.Fatalf("a READ of the peer ended with %v after %v", r.Outcome, p.now.Sub(start))
			}
			answers++
			p.post(1, answer)
		}
		if len(p.results(0)) > 0 {
			done = p.now.Sub(start)
		}
	}
	s := p.eng[0].Stats()
	if done == 0 || s.BulkTimedOut-before.BulkTimedOut != 1 || s.Timeouts != before.Timeouts || answers < 20 || lost < 2 {
		t.Errorf("the Write is done after %v, the bulk path was left %d times after %d time-outs, beside %d answers, with %d packets lost", done, s.BulkTimedOut-before.BulkTimedOut, s.Timeouts-before.Timeouts, answers, lost)
	}
}

// runBeside runs both engines for at most most, the second one only once in every away, as on a machine without a processor for it. It ends
// when the first side has a result, and returns how long that took.
func (p *pair) runBeside(away, most time.Duration) time.Duration {
	p.tb.Helper()
	begin, next := p.now, p.now.Add(away)
	for p.now.Sub(begin) < most {
		p.now = p.now.Add(100 * time.Microsecond)
		p.link[0].stamp, p.link[1].stamp = p.now, p.now
		p.eng[0].Run(p.now)
		if p.now >= next {
			p.runUntilIdle()
			next = p.now.Add(away)
		}
		if len(p.results(0)) > 0 {
			return p.now.Sub(begin)
		}
	}
	p.tb.Fatalf("no result in %v beside a peer that runs every %v", most, away)
	return 0
}

// A descheduled peer acknowledges packets to the ND port late. Late acknowledgements do not confirm a bulk path that loses
// everything (PROTOCOL §11.1).
func TestBulkDiesBesideALatePeer(t *testing.T) {
	for _, away := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
		p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort, BulkAlways: true}).connect().warmedUp()
		dead := false
		p.watchLanes(func(*TxPacket) bool { return dead })
		p.stream(300_000)
		dead = true
		p.post(0, p.write(0, 0, 300_000))
		took := p.runBeside(away, 20*time.Second)
		if s := p.eng[0].Stats(); s.BulkLeft != 1 || s.BulkTimedOut != 1 {
			t.Errorf("beside a peer that runs every %v the bulk path was left %d times (%d times for time-outs) in %v", away, s.BulkLeft, s.BulkTimedOut, took)
		}
	}
}

// If late acknowledgements of a peer show that time-outs were spurious, the packet size from before these time-outs is restored
// (PROTOCOL §9.6).
func TestLatePeerKeepsThePacketSize(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond} {
		p := newTunedPair(t, 1408, 1, Config{}).connect().warmedUp()
		p.stream(300_000)
		size, before := p.conn(0).mtu.Packet, p.eng[0].Stats()
		p.post(0, p.write(0, 0, 300_000))
		p.runBeside(away, 20*time.Second)
		s := p.eng[0].Stats()
		if s.Timeouts == before.Timeouts || s.SpuriousTimeouts == before.SpuriousTimeouts {
			t.Errorf("every %v: %d time-outs, %d of them undone", away, s.Timeouts-before.Timeouts, s.SpuriousTimeouts-before.SpuriousTimeouts)
		}
		if got := p.conn(0).mtu.Packet; got != size {
			t.Errorf("every %v: packets have %d bytes afterwards, %d before (%d black holes)", away, got, size, s.BlackHoles)
		}
	}
}
