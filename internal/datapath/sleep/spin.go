package sleep

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// spinner polls for a reason not to sleep, for as long as polling has recently paid. A sleep costs two wake-ups, one of a processor and one of a
// goroutine, which take longer than many peers to answer. It works as guest halt polling does (Linux, drivers/cpuidle/governors/haltpoll.c). A
// sleep that longer polling would have avoided makes polling longer. A sleep that no polling would have avoided makes it shorter. The zero
// spinner never polls.
type spinner struct {
	most  time.Duration // the longest look
	limit time.Duration // the next one
	began clock.Time    // start of the polling before the present sleep
	vains int           // how many of the last allLooks pollings were in vain
	rests int           // sleeps without a look

	spins, hits, sleeps atomic.Uint64
}

const (
	// DefaultSpin is the longest polling by default: an exchange with a program that wakes up some goroutines for it. It is as long as
	// that of Linux for virtual processors (guest_halt_poll_ns).
	DefaultSpin = 200 * time.Microsecond
	// firstSpin is the first polling after a time without polling.
	firstSpin = 10 * time.Microsecond
	// preempted is the time between two polls from which on another thread must have had the processor, and needs it more.
	preempted = 20 * time.Microsecond
	// looksAtOnce is the number of polls between two readings of the clock, about a tenth of a microsecond.
	looksAtOnce = 8
	// If mostVain of allLooks pollings are in vain, polling does not pay, although each packet comes soon after. The next restSleeps
	// sleeps begin without polling.
	allLooks   = 256
	mostVain   = allLooks * 3 / 4
	restSleeps = 32
)

// pays polls until over returns true, which is a hit, or until the time for polling has passed.
func (p *spinner) pays(over func() bool) (hit bool) {
	p.began = clock.Machine()
	if p.limit == 0 {
		return false
	}
	p.spins.Add(1)
	if hit = p.look(over); hit {
		p.hits.Add(1)
		p.vains -= p.vains / 8
	} else if p.vains += (allLooks - p.vains) / 8; p.vains > mostVain {
		p.limit, p.rests, p.vains = 0, restSleeps, allLooks/2
	}
	return hit
}

// look does so.
func (p *spinner) look(over func() bool) (hit bool) {
	alone := runtime.GOMAXPROCS(0) == 1
	for last := p.began; last.Sub(p.began) < p.limit; {
		for range looksAtOnce {
			if over() {
				return true
			}
		}
		if alone {
			runtime.Gosched() // other goroutines of this process have no other processor
		}
		now := clock.Machine()
		if now.Sub(last) > preempted {
			p.limit = 0
			return over()
		}
		last = now
	}
	return false
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
		p.limit = min(max(2*p.limit, firstSpin), p.most)
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

// Counts returns how often waiters polled before a sleep, how many of these pollings avoided the sleep, and how often waiters slept.
func (s *Sleeper) Counts() (spins, hits, sleeps uint64) {
	return s.spin.spins.Load(), s.spin.hits.Load(), s.spin.sleeps.Load()
}
