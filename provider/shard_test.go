package provider

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// lockedPipe is a pipe whose two sides run on two goroutines.
type lockedPipe struct {
	*pipe
	mu *sync.Mutex // shared by both sides
}

func (l lockedPipe) Receive(pkts []RxPacket) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pipe.Receive(pkts)
}

func (l lockedPipe) Ready() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pipe.Ready()
}

func (l lockedPipe) Recycle(ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pipe.Recycle(ids)
}

func (l lockedPipe) Transmit(pkts []TxPacket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pipe.Transmit(pkts)
}

// chanWaiter is a Waiter in memory. It counts how often waiting goroutines woke, and how often the progress goroutine polled.
type chanWaiter struct {
	wake, packets, remind chan struct{}
	sooner                chan clock.Time
	now                   clock.Source
	woke, looked          *atomic.Int64
}

func newChanWaiter() chanWaiter {
	signals := func() chan struct{} { return make(chan struct{}, 1) }
	return chanWaiter{signals(), signals(), signals(), make(chan clock.Time, 1000), nil, &atomic.Int64{}, &atomic.Int64{}}
}

// expiry returns a channel that closes after d. A negative d means never.
func expiry(d time.Duration) (expired <-chan struct{}, stop func() bool) {
	if d < 0 {
		return nil, func() bool { return true }
	}
	c := make(chan struct{})
	return c, time.AfterFunc(d, func() { close(c) }).Stop
}

func (w chanWaiter) Wait(until clock.Time, _ bool) {
	for sooner := true; sooner; {
		d := time.Duration(-1)
		if until != clock.Never {
			d = max(until.Sub(w.now()), 0)
		}
		expired, stop := expiry(d)
		sooner = false
		select {
		case <-w.wake:
		case <-w.packets:
		case <-expired:
		case t := <-w.sooner:
			until, sooner = min(until, t), true
		}
		stop()
	}
	w.woke.Add(1)
}

func (w chanWaiter) Pause(d time.Duration) {
	expired, stop := expiry(d)
	defer stop()
	select {
	case <-w.remind:
	case <-expired:
	}
	w.looked.Add(1)
}

func (w chanWaiter) Remind(d time.Duration) {
	if d == 0 {
		signal(w.remind)
	} else {
		time.AfterFunc(d, func() { signal(w.remind) })
	}
}

// forget drops wake-ups that no goroutine has received, and reports whether there were any. No goroutine may be asleep.
func (w chanWaiter) forget() (some bool) {
	for _, c := range []chan struct{}{w.wake, w.packets} {
		select {
		case <-c:
			some = true
		default:
		}
	}
	return some
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w chanWaiter) Rouse() { w.Wake() }

func (w chanWaiter) Shorten(until clock.Time) { w.sooner <- until }

func (w chanWaiter) Wake() { signal(w.wake) }

// shards makes an established pair that two shards run. From then on only Do may access it.
func shards(t *testing.T) (*pair, [2]*Shard) {
	p := newPair(t, 1408)
	var mu sync.Mutex
	var waiters [2]chanWaiter
	for i := range 2 {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		waiters[i] = newChanWaiter()
		p.link[i].wake = func() { signal(waiters[i].packets) }
		p.eng[i] = New(Config{}, lockedPipe{p.link[i], &mu}, p.mem[i], rng)
		p.qp[i] = p.eng[i].NewQP(QPConfig{
			ReceiveCQ: p.cq[i], InitiatorCQ: p.cq[i], ReceiveDepth: 256, InitiatorDepth: 256, MaxReceiveSGE: 4, MaxInitiatorSGE: 4,
		})
	}
	p.runUntilIdle()
	p.connect()
	p.runUntilIdle()
	begin := time.Now()
	start := p.now
	now := func() clock.Time { return start.Add(time.Since(begin)) }
	waiters[0].now, waiters[1].now = now, now
	s := [2]*Shard{NewShard(p.eng[0], waiters[0], now, p.broke), NewShard(p.eng[1], waiters[1], now, p.broke)}
	for _, s := range s {
		s.Do(func(*Engine) { s.alone = false })
	}
	return p, s
}

// broke counts an engine that panicked.
func (p *pair) broke() { p.broken++ }

// await sleeps until side 0 has n results, and returns how long that took. It must be called inside a synctest bubble.
func (p *pair) await(n int) time.Duration {
	start := time.Now()
	rs := make([]Result, 1024)
	for got := 0; got < n; {
		k := p.cq[0].Fetch(rs)
		if got += k; k == 0 {
			if time.Since(start) > time.Minute {
				p.tb.Fatalf("%d of %d results after a minute", got, n)
			}
			time.Sleep(10 * time.Microsecond)
		}
	}
	return time.Since(start)
}

func closeAll(s [2]*Shard) {
	for i := range s {
		s[i].Close()
		s[i].Close() // a second Close is harmless
	}
}

func (p *pair) postAndRing(s *Shard, r *listed) {
	if _, o := r.post(p.qp[0]); o != OutcomeSuccess {
		p.tb.Errorf("post: %v", o)
	}
	s.Ring()
}

func TestPostedWorkMovesWithoutAPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		for range 10 {
			time.Sleep(time.Second)
			p.postAndRing(s[0], p.write(0, 0, 5000))
			if d := p.await(1); d > time.Millisecond {
				t.Errorf("it took %v", d)
			}
		}
	})
}

// packetsOut returns how many packets the shard's engine has sent.
func (s *Shard) packetsOut() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.out.Counts().Packets
}

func TestALoneRequestIsSentWithoutAPollWhileAnApplicationPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		for s[0].Polls() == 0 {
			s[0].Poll()
		}
		s[0].Wake() // the progress goroutine sees that an application polls, and pauses
		synctest.Wait()
		if s[0].Asleep() {
			t.Fatal("the progress goroutine waits for packets, beside a poller")
		}
		post := func() (sent uint64) {
			before := s[0].packetsOut()
			if _, o := p.write(0, 0, 64).post(p.qp[0]); o != OutcomeSuccess {
				t.Fatal(o)
			}
			p.qp[0].Ring()
			return s[0].packetsOut() - before
		}
		if n := post(); n != 1 {
			t.Errorf("a lone request sent %d packets, want 1", n)
		}
		if n := post(); n != 0 {
			t.Errorf("a request behind another sent %d packets before the next turn, want 0", n)
		}
		p.await(2)
	})
}

func TestTimersRunWithoutAPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		time.Sleep(time.Second)
		s[1].Do(func(*Engine) { p.loseFirst(1, 1, 1) })
		p.postAndRing(s[0], p.write(0, 0, 10))
		if d := p.await(1); d > 50*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	})
}

// An application polls once, which sends its request, and then does something else for long. The lost packet is retransmitted
// nevertheless.
func TestPollerThatNeverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		time.Sleep(time.Second)
		synctest.Wait()
		s[1].Do(func(*Engine) { p.loseFirst(1, 1, 1) })
		if _, o := p.write(0, 0, 10).post(p.qp[0]); o != OutcomeSuccess {
			t.Fatal(o)
		}
		s[0].Poll()
		time.Sleep(50 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
	})
}

func TestPollerThenRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		for range 20 {
			if _, o := p.write(0, 0, 10).post(p.qp[0]); o != OutcomeSuccess {
				t.Fatal(o)
			}
			for p.cq[0].Empty() {
				s[0].Poll()
				time.Sleep(time.Microsecond)
			}
			p.outcomes(0, OutcomeSuccess)
			s[0].Release()
			synctest.Wait()
			p.postAndRing(s[0], p.write(0, 0, 10))
			if d := p.await(1); d > takeOver/2 {
				t.Fatalf("it took %v after Release", d)
			}
		}
	})
}

func TestDoGetsTheLockFromPollers(t *testing.T) {
	p, s := shards(t)
	defer closeAll(s)
	var stop atomic.Bool
	var pollers sync.WaitGroup
	for range 2 {
		pollers.Go(func() {
			for !stop.Load() {
				s[0].Poll()
			}
		})
	}
	for range 200 {
		s[0].Do(func(e *Engine) {
			if e != p.eng[0] {
				t.Error("another engine")
			}
		})
	}
	stop.Store(true)
	pollers.Wait()
}

// Many goroutines post at once. Each rings the doorbell itself, and the lock is often taken at that time. No doorbell is lost.
func TestNoDoorbellIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := shards(t)
		defer closeAll(s)
		const n = 4
		for round := range 300 {
			var posters sync.WaitGroup
			for i := range n {
				posters.Go(func() {
					p.postAndRing(s[0], p.write(0, uint32(i)*64, 64))
					if i == 0 && round%3 == 0 {
						s[0].Poll()
					}
				})
			}
			posters.Wait()
			if d := p.await(n); d > 20*time.Millisecond {
				t.Fatalf("round %d took %v", round, d)
			}
		}
	})
}

func TestCloseOfAShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := shards(t)
		time.Sleep(time.Second)
		closeAll(s) // the synctest bubble reports goroutines that are left
		s[0].Poll()
		s[0].Ring()
		ran := false
		s[0].Do(func(*Engine) { ran = true })
		if !ran {
			t.Error("Do after Close")
		}
	})
}
