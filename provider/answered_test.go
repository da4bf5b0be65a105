package provider

import (
	"strconv"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// question is a SEND of 100 bytes with these flags.
func (p *pair) question(side int, flags PostFlags) *listed {
	r := p.send(side, 100)
	r.Flags |= flags
	return r
}

// talking returns a pair of connected sides, each with this number of posted receives.
func talking(t *testing.T, receives int) *pair {
	p := newPair(t, 1408).connect().warmedUp()
	for side := range 2 {
		for range receives {
			p.receive(side, 0, 100)
		}
	}
	p.runUntilIdle()
	return p
}

// If programs exchange requests and answers of one or two messages, no packet is sent only to report new receives (PROTOCOL §9.2).
func TestReceivesAreToldInAnswers(t *testing.T) {
	for _, messages := range []int{1, 2} {
		t.Run(strconv.Itoa(messages), func(t *testing.T) { receivesAreToldInAnswers(t, messages) })
	}
}

func receivesAreToldInAnswers(t *testing.T, messages int) {
	const answered = FlagSolicit | FlagAnswered
	p := talking(t, 8)
	before := [2]uint64{p.eng[0].Stats().AcksOut, p.eng[1].Stats().AcksOut}
	const rounds = 100
	for range rounds {
		for side := range 2 {
			for range messages {
				p.post(side, p.question(side, answered))
			}
			p.runUntilIdle()
			for range messages {
				p.receive(1-side, 0, 100) // the program has received the message
			}
			p.runUntilIdle() // and computes its answer
			p.results(1 - side)
		}
	}
	for side := range 2 {
		if n := p.eng[side].Stats().AcksOut - before[side]; n > 0 {
			t.Errorf("side %d sent %d acknowledgements alone in %d rounds", side, n, rounds)
		}
	}
}

// A side reports new receives once the peer does not know of half as many as it has left. With eight receives, the third answer
// carries the report.
func TestWhenReceivesAreTold(t *testing.T) {
	const answered, depth = FlagSolicit | FlagAnswered, 8
	p := talking(t, depth)
	answers, told := 0, 0
	p.link[0].mangle = func(b []byte) bool {
		if sequenced(b) {
			if answers++; told == 0 && wire.BaseHeader(b).Flags()&wire.FlagReport != 0 {
				told = answers
			}
		}
		return true
	}
	for range depth {
		p.post(0, p.question(0, answered))
		p.runUntilIdle()
		p.receive(1, 0, 100)
		p.post(1, p.question(1, answered))
		p.runUntilIdle()
		p.receive(0, 0, 100)
	}
	if answers != depth || told != 3 {
		t.Errorf("reported in answer %d of %d", told, answers)
	}
}

// A SEND whose sender waits only for an answer is acknowledged by the answer, or at the latest after turn.AnswerTime (PROTOCOL
// §9.2).
func TestAnswersAcknowledge(t *testing.T) {
	const answered = FlagSolicit | FlagAnswered
	for _, c := range []struct {
		name  string
		flags PostFlags
		sends int
		waits bool
	}{
		{"one", answered, 1, true},
		{"two", answered, 2, true},
		{"three", answered, 3, false},
		{"whose result somebody waits for", FlagSolicit, 1, false},
		{"that wakes nobody", FlagAnswered, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, answers := range []bool{true, false} {
				p := newPair(t, 1408).connect().warmedUp()
				for range 8 {
					p.receive(1, 0, 100)
				}
				p.receive(0, 0, 100)
				p.runUntilIdle()
				acks := p.eng[1].Stats().AcksOut
				for range c.sends {
					p.post(0, p.question(0, c.flags))
				}
				p.runUntilIdle()
				done := len(p.results(0))
				if spoke := p.eng[1].Stats().AcksOut > acks; spoke == c.waits || (done == 0) != c.waits {
					t.Errorf("acknowledged at once: %v with %d results, want %v", spoke, done, !c.waits)
				}
				if !c.waits {
					continue
				}
				want := acks
				if answers {
					p.post(1, p.question(1, answered))
					p.runUntilIdle()
				} else {
					p.pass(turn.AnswerTime - 100*time.Microsecond)
					if n := p.eng[1].Stats().AcksOut; n != acks {
						t.Errorf("%d acknowledgements before it is time", n-acks)
					}
					p.pass(150 * time.Microsecond)
					want++
				}
				sends := 0
				for _, r := range p.results(0) {
					if r.Kind == KindSend {
						sends++
					}
				}
				if n := p.eng[1].Stats().AcksOut; sends != c.sends || n != want {
					t.Errorf("answered %v: %d results and %d acknowledgements, want %d and %d", answers, sends, n-acks, c.sends, want-acks)
				}
				if s := p.eng[0].Stats(); s.Probes != 0 {
					t.Errorf("%d probes before the acknowledgement was due", s.Probes)
				}
			}
		})
	}
}

// The loss of a SEND without ACKREQ is still detected, and its probe has ACKREQ.
func TestQuestionThatIsLost(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	p.receive(1, 0, 100)
	p.runUntilIdle()
	lost := 0
	p.link[1].mangle = func(b []byte) bool {
		if sequenced(b) && lost == 0 {
			lost++
			return false
		}
		return true
	}
	p.post(0, p.question(0, FlagSolicit|FlagAnswered))
	p.pass(turn.AnswerTime + time.Millisecond)
	if s := p.eng[0].Stats(); len(p.results(0)) != 1 || lost != 1 || s.Probes != 1 || s.Timeouts != 0 {
		t.Errorf("%d lost, %d probes, %d time-outs, and it is not done", lost, s.Probes, s.Timeouts)
	}
}
