package sleep

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// spinner polls for a reason not to sleep, for as long as polling has recently paid. A sleep costs two wake-ups, one of a processor and one of a
// goroutine, which take longer than many peers to answer. A sleep that longer polling would have avoided makes polling that long. A sleep that no
// polling would have avoided makes it shorter, and so do quick hits. While it polls, goroutines that wait for a processor go first. newSpinner makes it.
type spinner struct {
	most  time.Duration // the longest look
	limit time.Duration // the next one
	began clock.Time    // start of the polling before the present sleep
	vains int           // how many of the last allLooks pollings were in vain, or hit late
	rests int           // sleeps without a look

	waiting     func() bool  // reports whether goroutines wait for a processor
	preemptions func() int64 // counts the preemptions of the calling thread

	spins, hits, sleeps atomic.Uint64
}

const (
	// DefaultSpin is the longest polling by default. On a virtual machine an exchange takes up to 400 µs if both ends sleep. Ends that poll for
	// a shorter time would go on sleeping, although their exchange takes 40 µs if both poll.
	DefaultSpin = 500 * time.Microsecond
	// firstSpin is the shortest polling.
	firstSpin = 10 * time.Microsecond
	// preempted is the time between two polls from which on the kernel is asked whether another thread had the processor. An interrupt of a
	// virtual machine may take as long.
	preempted = 20 * time.Microsecond
	// askEvery is the time between two questions whether goroutines wait for a processor, which take 0.1 µs on a machine with two processors.
	askEvery = 10 * time.Microsecond
	// A hit within 1/earlyHit of the polling time makes polling shorter by 1/early. Where most answers are quick, polling through a long wait
	// rarely pays. A single sleep restores the time.
	earlyHit, early = 8, 32
	// looksAtOnce is the number of polls between two readings of the clock, about a tenth of a microsecond.
	looksAtOnce = 8
	// If mostVain of allLooks pollings are in vain or take longer than lateHit, polling does not pay, although each packet comes soon. The
	// next restSleeps sleeps begin without polling. A peer that sends at a steady rate would otherwise occupy a processor.
	lateHit    = 200 * time.Microsecond
	allLooks   = 256
	mostVain   = allLooks * 3 / 4
	restSleeps = 32
)

// newSpinner returns a spinner that polls for most at a time. If most is zero, it never polls.
func newSpinner(most time.Duration) spinner {
	return spinner{most: most, waiting: goroutinesWait(), preemptions: preemptions}
}

// pays polls until over returns true, which is a hit, or until the time for polling has passed.
func (p *spinner) pays(over func() bool) (hit bool) {
	p.began = clock.Machine()
	if p.limit == 0 {
		return false
	}
	p.spins.Add(1)
	hit, after := p.look(over)
	if hit {
		p.hits.Add(1)
		if p.limit > earlyHit*after+firstSpin {
			p.limit -= p.limit / early
		}
	}
	if hit && after <= lateHit {
		p.vains -= p.vains / 8
	} else if p.vains += (allLooks - p.vains) / 8; p.vains > mostVain {
		p.limit, p.rests, p.vains = 0, restSleeps, allLooks/2
	}
	return hit
}

// look does so. It also returns how long it polled.
func (p *spinner) look(over func() bool) (hit bool, after time.Duration) {
	alone := runtime.GOMAXPROCS(0) == 1
	before, asked := p.preemptions(), p.began.Add(-askEvery)
	last := p.began
	for last.Sub(p.began) < p.limit {
		ask := last.Sub(asked) >= askEvery
		if ask {
			asked = last
		}
		if alone || ask && p.waiting() { // a process with one processor also runs its timers
			runtime.Gosched()
			if last = clock.Machine(); ask {
				before = p.preemptions() // the goroutine may have moved to another thread
			}
		}
		for range looksAtOnce {
			if over() {
				return true, last.Sub(p.began)
			}
		}
		now := clock.Machine()
		if now.Sub(last) > preempted && p.preemptions() != before {
			p.limit = 0
			return over(), now.Sub(p.began)
		}
		last = now
	}
	return false, last.Sub(p.began)
}

// slept handles the end of a sleep. woken says that this process ended it.
func (p *spinner) slept(now clock.Time, woken bool) {
	p.sleeps.Add(1)
	switch took := now.Sub(p.began); {
	case woken && p.vain():
	case took > p.most:
		p.shrink()
	case p.rests > 0:
		p.rests--
	case took > p.limit:
		p.limit = min(max(took+took/4, firstSpin), p.most)
	}
}

// vain handles a polling or a sleep that ended because of other work of this process. Polling takes a processor from the goroutines that
// have this work. It returns whether polling becomes shorter. With one processor polling stays as long, because other goroutines run
// meanwhile.
func (p *spinner) vain() bool {
	if runtime.GOMAXPROCS(0) == 1 {
		return false
	}
	p.shrink()
	return true
}

func (p *spinner) shrink() {
	if p.limit /= 2; p.limit < firstSpin {
		p.limit = 0
	}
}

// goroutinesWait returns a function that asks the Go runtime whether goroutines are ready to run, but do not run. The goroutine that was
// readied last waits for the processor of the goroutine that readied it, unless a thread wakes up and takes it over. So a goroutine that polls
// would make it wait for a wake-up. A yield wakes a thread for nothing if no goroutine waits.
func goroutinesWait() func() bool {
	ready := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	return func() bool {
		metrics.Read(ready)
		n := ready[0].Value // of KindBad if a runtime does not have the metric
		return n.Kind() == metrics.KindUint64 && n.Uint64() > 0
	}
}

// preemptions returns the number of involuntary context switches of the calling thread.
func preemptions() int64 {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &used) // if a sandbox refuses it, polling goes on
	return used.Nivcsw
}

// Counts returns how often waiters polled before a sleep, how many of these pollings avoided the sleep, and how often waiters slept.
func (s *Sleeper) Counts() (spins, hits, sleeps uint64) {
	return s.spin.spins.Load(), s.spin.hits.Load(), s.spin.sleeps.Load()
}
