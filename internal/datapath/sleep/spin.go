package sleep

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// spinner looks for a reason not to sleep for as long as that has paid lately. A sleep costs two wake-ups, one of a processor and one of a
// goroutine, which take longer than many peers to answer. It works as guest halt polling does (Linux, drivers/cpuidle/governors/haltpoll.c): sleeps that a
// longer look would have spared make looks longer, and sleeps that none would have spared make them shorter. The zero spinner never looks.
type spinner struct {
	most  time.Duration // the longest look
	limit time.Duration // the next one
	began clock.Time    // of the look before the sleep under way
	vains int           // how many looks of late were in vain, of allLooks
	rests int           // sleeps without a look

	spins, hits, sleeps atomic.Uint64
}

const (
	// DefaultSpin is the longest look unless a program says otherwise: a round trip to a peer that sleeps itself, on the same machine or
	// in the same rack.
	DefaultSpin = 100 * time.Microsecond
	// firstSpin is a look after none.
	firstSpin = 10 * time.Microsecond
	// preempted is the time between two looks of a spin from which on somebody else had the processor, who has a better use for it.
	preempted = 20 * time.Microsecond
	// looksAtOnce is how often it looks between two readings of the clock: about a tenth of a microsecond.
	looksAtOnce = 8
	// mostVain of allLooks are in vain where looking does not pay, although the packet comes soon behind each: the next restSleeps begin without.
	allLooks   = 256
	mostVain   = allLooks * 3 / 4
	restSleeps = 32
)

// pays looks until over says so, which is a hit, or the time for looking has passed.
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
			runtime.Gosched() // others of this process have no other processor
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

// slept learns from a sleep that ended now; woken says that this process ended it.
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

// vain handles a poll or a sleep that ended because of other work of this process: other goroutines have work, and a processor less while
// one polls. It returns whether that was so: with one processor they have it meanwhile.
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

// Counts says how often waiters looked for packets before a sleep, how many of these looks spared the sleep, and how often they slept.
func (s *Sleeper) Counts() (spins, hits, sleeps uint64) {
	return s.spin.spins.Load(), s.spin.hits.Load(), s.spin.sleeps.Load()
}
