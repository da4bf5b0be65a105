package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/wire"
)

// The report that raises the receive limit of a blocked sender may be lost. The loss costs at most a round trip and a half, however
// long the sender has been blocked (PROTOCOL §9.4).
func TestLostReceiveLimitCostsARoundTripAndAHalf(t *testing.T) {
	for _, trip := range []time.Duration{200 * time.Microsecond, 10 * time.Millisecond, time.Second} {
		for name, waited := range map[string]time.Duration{"at once": 0, "a round trip": trip, "long": 1500 * time.Millisecond} {
			t.Run(trip.String()+" "+name, func(t *testing.T) {
				p := newPair(t, 1408).connect()
				for side := range 2 {
					p.conn(side).rtt.Smoothed = trip
				}
				p.post(0, p.send(0, 10))
				p.runUntilIdle()
				p.pass(waited)
				p.loseFirst(0, 1, blocksAlone)
				p.receive(1, 0, 10)
				p.runUntilIdle()
				p.outcomes(0)
				p.pass(trip + trip/2)
				p.outcomes(0, OutcomeSuccess)
				p.outcomes(1, OutcomeSuccess)
			})
		}
	}
}

// A peer whose blocked SEND has left gets no more reports, and the connection becomes idle like any other.
func TestWaitForAReceiveLeavesNothing(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.send(0, 10))
	p.pass(100 * time.Millisecond)
	if s := p.conn(1).receives.Wait.State(); s != credit.Asked {
		t.Fatalf("state %d of the wait", s)
	}
	p.receive(1, 0, 10)
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
	if w := p.conn(1).receives.Wait; w != (credit.Wait{}) {
		t.Errorf("it still waits: %+v", w)
	}
	acks := p.eng[1].Stats().AcksOut
	p.pass(100 * time.Millisecond)
	if n := p.eng[1].Stats().AcksOut - acks; n > 1 {
		t.Errorf("%d acknowledgements of one message", n)
	}
	p.pass(2 * p.eng[1].cfg.IdleAfter)
	for side := range 2 {
		if p.conn(side).traffic != nil {
			t.Errorf("side %d is not idle", side)
		}
	}
}

// A sender that is blocked for long sends PING less and less often.
func TestWaitingSenderAsksEverMoreSeldom(t *testing.T) {
	p := newPair(t, 1408).connect()
	asked := 0
	p.link[1].mangle = func(b []byte) bool {
		if opcode(b) == wire.CtlPing {
			asked++
		}
		return true
	}
	p.post(0, p.send(0, 10))
	p.pass(time.Second)
	if least, most := int(time.Second/credit.AskInterval), int(time.Second/credit.AskInterval)+10; asked < least || asked > most {
		t.Errorf("%d PINGs in a second, not %d to %d", asked, least, most)
	}
}
