package provider

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/watch"
)

// asleep makes an application sleep until side 0 has a result. Only packets wake it.
func (p *pair) asleep(s *Shard, w *Wait) (ended chan bool) {
	ended = make(chan bool, 1)
	p.cq[0].Arm(NotifyAny, w.Finish)
	go func() { ended <- s.Sleep(w) }()
	synctest.Wait()
	return ended
}

// A sleeping call waits for packets itself: the answer wakes one goroutine. The progress goroutine polls only when the application
// has been away for a while.
func TestOneWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		waiter, ok := s[0].Waiter.(chanWaiter)
		if !ok {
			t.Fatalf("the waiter is a %T", s[0].Waiter)
		}
		w := NewWait()
		stale := 0 // how often a signal found the last sleeper awake, and would wake the next one
		turn := func() {
			w.Reset()
			synctest.Wait()
			if waiter.forget() {
				stale++
			}
			ended := p.asleep(s[0], w)
			p.postAndRing(s[0], p.write(0, 0, 64))
			if !<-ended || w.Outcome() != OutcomeSuccess {
				t.Fatal("the call did not end")
			}
			p.results(0)
		}
		for range 10 {
			turn()
		}
		stale = 0
		woke, looked := waiter.woke.Load(), waiter.looked.Load()
		const times = 100
		for range times {
			turn()
		}
		if n := waiter.woke.Load() - woke; n > times { // the post changes the sleeper's timer, and the answer ends the call
			t.Errorf("%d wake-ups for %d calls", n, times)
		}
		if stale > times/20 { // one in 30,000 calls
			t.Errorf("%d stale signals in %d calls", stale, times)
		}
		if n := waiter.looked.Load() - looked; n != 0 {
			t.Errorf("the progress goroutine polled %d times, in no time", n)
		}
		time.Sleep(10 * takeOver)
		synctest.Wait()
		if !s[0].Asleep() {
			t.Error("no goroutine waits for packets after the application went away")
		}
	})
}

// An application that slept, and then posts and polls for long without sleep, sends many requests in one packet, like one that
// never slept. Requests that it leaves unsent leave soon after its last call.
func TestManyPostsAfterASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		sleep := func() {
			ended := p.asleep(s[0], NewWait())
			p.postAndRing(s[0], p.write(0, 0, 64))
			<-ended
			p.results(0)
		}
		const n, most = 200, 8 + 200/10 + 1 // the first request alone, then as many as fit
		post := func() {
			for range n {
				p.postAndRing(s[0], p.write(0, 0, 64))
			}
		}
		sleep()
		before := s[0].packetsOut()
		post()
		s[0].Poll()
		p.await(n)
		if sent := s[0].packetsOut() - before; sent > most {
			t.Errorf("%d packets for %d requests of a poller, want %d at the most", sent, n, most)
		}
		sleep()
		post() // and does not poll
		if d := p.await(n); d > 2*watch.ComesBack {
			t.Errorf("the remaining requests took %v", d)
		}
	})
}

// Pollers learn of the calls that ended while a goroutine slept in them, and of no others.
func TestSleepersThatWereTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		if s[0].Poll() || s[0].Look() {
			t.Error("an idle poll ended something")
		}
		w := NewWait()
		w.Finish(OutcomeSuccess)
		if s[0].Sleep(w); s[0].Told() != 0 {
			t.Error("the end of a call without a sleeper counts")
		}
		first := NewWait() // the first call waits for packets
		go s[0].Sleep(first)
		synctest.Wait()
		second := p.asleep(s[0], NewWait())
		p.postAndRing(s[0], p.write(0, 0, 64))
		if !<-second || s[0].Told() != 1 {
			t.Errorf("%d calls ended, want the one that sleeps beside the watcher", s[0].Told())
		}
		if first.Finish(OutcomeCanceled); s[0].Told() != 2 {
			t.Error("the end of the watcher's call does not count")
		}
		synctest.Wait()
	})
}

// Many goroutines sleep. Each wakes with its own answer or with the end of the shard, and the role of the watcher is handed on.
func TestManySleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		const n = 50
		var calls [n]*Wait
		var sleepers sync.WaitGroup
		for i := range calls {
			calls[i] = NewWait()
			calls[i].Patient = i%3 == 0
			sleepers.Go(func() {
				if !s[0].Sleep(calls[i]) {
					t.Errorf("call %d was interrupted", i)
				}
			})
		}
		synctest.Wait()
		for i := range n / 2 { // from outside a poll
			calls[i*2].Finish(OutcomeSuccess)
			synctest.Wait()
			if !s[0].Asleep() {
				t.Fatalf("no goroutine waits for packets after call %d ended", i*2)
			}
		}
		ended := p.asleep(s[0], calls[0])
		p.postAndRing(s[0], p.write(0, 0, 64))
		if !<-ended {
			t.Error("a call did not end beside others")
		}
		closed := make(chan struct{})
		go func() {
			closeAll(s)
			close(closed)
		}()
		<-closed
		for i := range n / 2 {
			calls[i*2+1].Finish(OutcomeDeviceRemoved)
		}
		sleepers.Wait()
	})
}

// If the application reports that the watching call does not sleep again, a patient call becomes the watcher at once.
func TestPassOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		call, patient := NewWait(), NewWait()
		patient.Patient = true
		slept := make(chan bool, 1)
		go func() { slept <- s[0].Sleep(patient) }()
		ended := p.asleep(s[0], call)
		s[0].PassOn() // the call still has the watch
		synctest.Wait()
		if s[0].Holds(patient) {
			t.Fatal("a patient call took the watch from another")
		}
		call.Finish(OutcomeSuccess)
		<-ended
		synctest.Wait()
		if !s[0].Left() {
			t.Fatal("a patient call got the watch of a call that may come back")
		}
		began := time.Now()
		s[0].PassOn()
		synctest.Wait()
		if !s[0].Holds(patient) || !s[0].Asleep() || time.Since(began) != 0 {
			t.Errorf("after %v a patient call does not wait for packets", time.Since(began))
		}
		patient.Finish(OutcomeSuccess)
		<-slept
		s[0].PassOn() // nobody waits for the watch
		synctest.Wait()
		if !s[0].Left() {
			t.Error("a goroutine became the watcher")
		}
	})
}

// An interrupted sleep leaves the call pending. A signal that comes too late for one sleep does not end the next call.
func TestInterruptedSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := shards(t)
		defer closeAll(s)
		w := NewWait()
		for range 3 {
			ended := make(chan bool, 1)
			go func() { ended <- s[0].Sleep(w) }()
			synctest.Wait()
			w.Interrupt()
			if <-ended {
				t.Fatal("an interrupted call ended")
			}
		}
		w.Finish(OutcomeCanceled)
		if !s[0].Sleep(w) || w.Outcome() != OutcomeCanceled {
			t.Error("a call that ended sleeps")
		}
		if w.Reset(); w.Over() {
			t.Error("a call that begins is over")
		}
	})
}

// A panic in the poll of a sleeping call goes to its caller, and no goroutine is left as the watcher.
func TestPanicInASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		w, other := NewWait(), NewWait()
		got := make(chan any, 1)
		go func() { got <- recovered(func() { s[0].Sleep(w) }) }()
		synctest.Wait()
		sleeping := make(chan bool, 1)
		go func() { sleeping <- s[0].Sleep(other) }()
		synctest.Wait()
		s[0].mu.Lock()
		e := s[0].engine
		boom := boomLink{e.link}
		e.link = boom
		e.out.CutOff(boom)
		e.received.CutOff(boom)
		s[0].mu.Unlock()
		s[0].Wake()
		if v := <-got; v != errBoom {
			t.Fatalf("the caller got %v", v)
		}
		if p.broken != 1 {
			t.Errorf("%d engines are reported as broken", p.broken)
		}
		synctest.Wait()
		other.Finish(OutcomeDeviceRemoved)
		if !<-sleeping || !s[0].Free() {
			t.Error("the other call does not end, or watches a broken engine")
		}
	})
}
