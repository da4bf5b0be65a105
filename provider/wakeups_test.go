package provider

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// trip is how long a packet of TestWakeUps travels. In a synctest bubble no time passes before all goroutines are blocked, so an
// answer finds its sender asleep. Without this delay an answer could arrive during the sender's poll, which would then need no
// wake-up.
const trip = time.Microsecond

// TestWakeUps: a message between two applications that sleep wakes each engine exactly as often as the table states. Without a
// message no engine wakes, apart from a timer once a second. A change of a count needs a decision.
func TestWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		var woke [2]*atomic.Int64
		for i := range s {
			w, ok := s[i].Waiter.(chanWaiter)
			if !ok {
				t.Fatalf("the waiter is a %T", s[i].Waiter)
			}
			woke[i] = w.woke
			link := p.eng[i].link.(lockedPipe)
			link.mu.Lock()
			link.wake = func() { time.AfterFunc(trip, func() { signal(w.packets) }) }
			link.mu.Unlock()
		}
		rest := func() {
			time.Sleep(97 * time.Millisecond) // no message may come exactly when the connection checks whether it is idle, a second after an earlier message
			synctest.Wait()
		}
		for _, c := range []struct {
			name string
			do   func()
			want [2]int64
		}{
			{"nothing", func() {}, [2]int64{0, 0}},
			{"write 64", func() { p.postAndRing(s[0], p.write(0, 0, 64)) }, [2]int64{3, 1}},
			{"read 64", func() { p.postAndRing(s[0], p.read(0, 64)) }, [2]int64{3, 3}},
			{"write 4096", func() { p.postAndRing(s[0], p.write(0, 0, 4096)) }, [2]int64{3, 1}},
		} {
			for range 100 { // warm
				c.do()
				rest()
			}
			before := [2]int64{woke[0].Load(), woke[1].Load()}
			const times = 20
			for range times {
				c.do()
				rest()
			}
			var got [2]int64
			for i := range got {
				got[i] = (woke[i].Load() - before[i]) / times // the remainder is the connection's own timer, once a second
			}
			if got != c.want {
				t.Errorf("%s: the two engines woke %v times, want %v", c.name, got, c.want)
			}
			p.results(0)
		}
	})
}
