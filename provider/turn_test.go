package provider

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/turn"
)

// glance makes side 1 receive, in a glance, the request that side 0 posted.
func (p *pair) glance(r *listed) (busy bool) {
	p.tb.Helper()
	p.post(0, r)
	p.now += 1000
	p.eng[0].Run(p.now)
	return p.eng[1].Glance(p.now)
}

func TestGlanceReportsBeforeItSends(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fill(0, 0, 64, 7)
	p.receive(1, 100, 64)
	p.runUntilIdle()
	if !p.glance(p.send(0, 64)) {
		t.Error("a glance that defers work must be followed by a poll")
	}
	p.outcomes(1, OutcomeSuccess)
	if !p.all(1, 100, 64, 7) {
		t.Error("the message is not there after a glance")
	}
	e := p.eng[1]
	if !e.putOff || e.idle() || p.link[0].Ready() {
		t.Errorf("put off %v, idle %v, answered %v: want the rest of the turn to come", e.putOff, e.idle(), p.link[0].Ready())
	}
	p.runUntilIdle()
	if e.putOff || !e.idle() || len(e.heard.conns)+len(e.timers.touched)+len(e.acks.conns) > 0 {
		t.Error("the next turn left something of the glance undone")
	}
	p.outcomes(0, OutcomeSuccess)
}

func TestGlanceThatSeesNothingIsATurn(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.write(0, 0, 64))
	p.now += 1000
	p.eng[0].Glance(p.now) // a doorbell was rung
	if !p.link[1].Ready() || p.eng[0].putOff {
		t.Fatal("a glance with work at hand did not do it")
	}
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	at := p.eng[0].NextDeadline()
	p.now = at
	before := p.eng[0].out.Counts().Packets
	p.eng[0].Glance(p.now)
	if p.eng[0].timers.deadlines.Next() == at && p.eng[0].out.Counts().Packets == before {
		t.Error("a glance ran no timer that was due")
	}
}

// TestGlanceAnswersReads: a READ is answered by the engine in a glance, without the poller's next poll.
func TestGlanceAnswersReads(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fill(1, 0, 64, 9)
	p.glance(p.read(0, 64))
	if p.eng[1].putOff || !p.link[0].Ready() {
		t.Error("the answer to a READ was deferred")
	}
	p.runUntilIdle()
	if !p.all(0, 0, 64, 9) {
		t.Error("the READ returned other bytes")
	}
}

// TestPutOffOnce: a poller that only glances must not defer work for ever.
func TestPutOffOnce(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.glance(p.write(0, 0, 64))
	p.glance(p.write(0, 64, 64))
	if p.eng[1].putOff {
		t.Error("two glances in a row deferred the rest")
	}
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
}

// TestCallsComeAfterWhatWasPutOff: a call into the engine first does the work that a glance deferred.
func TestCallsComeAfterWhatWasPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		s[1].Poll() // the progress goroutine was asleep until now; from now on an application polls
		synctest.Wait()
		for range 100 {
			p.postAndRing(s[0], p.write(0, 0, 64))
			s[1].Poll()
			s[1].Do(func(e *Engine) {
				if e.putOff || len(e.heard.conns) > 0 {
					t.Error("a call found work that a glance had deferred")
				}
			})
			p.await(1)
		}
	})
}

// TestPollerThatLeavesAfterAGlance: if the poller does not come back after a glance, the progress goroutine does the deferred work.
func TestPollerThatLeavesAfterAGlance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		for range 50 {
			for range 4 * timerPolls { // claims the engine
				s[1].Poll()
			}
			time.Sleep(takeOver / 10) // the progress goroutine has noticed it
			p.postAndRing(s[0], p.write(0, 0, 64))
			s[1].Poll()
			if d := p.await(1); d > 4*takeOver {
				t.Fatalf("the acknowledgement took %v after the poller had left", d)
			}
		}
	})
}

// TestAloneLeavesAtOnce: a request without outstanding requests before it is on the wire when Post returns, also while an
// application polls. A request behind others waits for the next poll.
func TestAloneLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		for range 4 * timerPolls {
			s[0].Poll()
		}
		synctest.Wait()
		sent := func() (n uint64) {
			s[0].mu.Lock() // not Do, which polls
			defer s[0].mu.Unlock()
			return p.eng[0].out.Counts().Packets
		}
		before := sent()
		ring, o := p.write(0, 0, 64).post(p.qp[0])
		p.must(o)
		if ring || sent() != before+1 {
			t.Errorf("ring %v, %d packets after the post of one request, want false and 1", ring, sent()-before)
		}
		ring, o = p.write(0, 64, 64).post(p.qp[0])
		p.must(o)
		if !ring { // whether it is sent by now depends on the progress goroutine, which may run for other reasons
			t.Error("the post of a request behind others did not leave it to the next poll")
		}
		s[0].Poll()
		p.await(2)
	})
}

// TestServeHidesNoGap: serving a poster does not receive packets. Packets in the ring may have waited since the poll before, unless
// a goroutine waited for packets all the time.
func TestServeHidesNoGap(t *testing.T) {
	const computed, ahead = 100 * time.Microsecond, time.Microsecond
	for _, blind := range []bool{true, false} {
		p := newPair(t, 1408).connect()
		e := p.eng[1]
		p.turn()
		p.now = p.now.Add(computed)
		p.post(1, p.write(1, 0, 64))
		e.turns.Watch(!blind)
		e.Serve(p.now, p.qp[1])
		p.now = p.now.Add(ahead)
		e.Run(p.now)
		want := ahead
		if blind {
			want += computed
		}
		const trip = time.Hour
		found := p.now.Add(2 * trip)
		part, ok := e.turns.Network(turn.Trip{Left: found.Add(-trip), Came: found}, 0, found)
		if got := trip - part; !ok || got != want {
			t.Errorf("blind %v: no poll for %v, want %v", blind, got, want)
		}
	}
}

// TestCallsAfterCloseSendNothing: work that a glance deferred is done before the link closes.
func TestCallsAfterCloseSendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		s[1].Poll()
		synctest.Wait()
		p.postAndRing(s[0], p.write(0, 0, 64))
		s[1].mu.Lock()
		s[1].engine.Glance(s[1].now())
		s[1].mu.Unlock()
		s[1].Close()
		before := p.eng[1].out.Counts().Packets
		s[1].Do(func(e *Engine) {
			if e.putOff || len(e.heard.conns) > 0 {
				t.Error("the close did not do the work that a glance had deferred")
			}
		})
		if p.eng[1].out.Counts().Packets != before {
			t.Error("a call after Close sent something")
		}
	})
}
