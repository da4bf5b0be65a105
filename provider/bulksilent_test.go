package provider

import (
	"testing"
	"time"
)

// A lane that dies is left although the peer's READs are answered all the time: each answer that is acknowledged starts the timer anew, so that it never finds out (PROTOCOL §11.1).
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
	p.post(0, p.write(0, 0, 40_000)) // leaves room in the window for answers
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
		t.Errorf("the Write is done after %v, the lane was left %d times after %d time-outs, beside %d answers, with %d packets lost", done, s.BulkTimedOut-before.BulkTimedOut, s.Timeouts-before.Timeouts, answers, lost)
	}
}
