package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
)

// Hosts that share their processors with other programs deschedule an end for milliseconds. Packets that arrive meanwhile wait in its
// memory, and no acknowledgement comes back. A window spans a round trip of microseconds, so it is full at once. If each of two ends has
// half a processor, both run for a quarter of the time, and data moves only then. So a sender that knows of absences goes on while no
// acknowledgement comes. It sends at the rate it had, for as long as recent absences took, and at most as many bytes as the peer had memory
// for.

const (
	// absent is how much longer than a round trip nothing comes back when an end is off its core, and not only late.
	absent = 200 * time.Microsecond
	// away is how long an end that has its core never holds a packet.
	away = time.Millisecond
	// grantTime is from one grant to the next at the least: a sender wakes for each.
	grantTime = 100 * time.Microsecond
	// The rate is rateNum/rateDen of a window per round trip. The round trip is the least recent one, and no queue may grow.
	rateNum, rateDen = 3, 4
	// shortest is the round trip that a rate is computed from at the least.
	shortest = grantTime / 16
	// firstMost is the peer's assumed memory at first, and lastMost its maximum, both including the window: 1425 packets of 1500 bytes, of
	// the 2048 that a receive ring of this project has in copy mode. After a loss the bound grows by 1/slowly of itself, because each bound
	// that is too high costs packets.
	firstMost, lastMost = 128 << 10, 2 << 20
	slowly              = 16
	// leastRate in packets is a window that says how fast the path is.
	leastRate = 2
)

// allowance is what may be in flight beyond the window while nothing comes back.
type allowance struct {
	bytes   int          // now
	most    int          // at the most: what the peer held so far
	careful bool         // it once did not hold more
	absence turn.Absence // how long one of the ends was off its core lately
	heardAt clock.Time   // when something came back last, or something left when nothing was in flight; zero after a time-out
	nextAt  clock.Time   // when more is granted

	silence time.Duration // the newest one, until a round trip shows whether it was a queue; then zero
	before  time.Duration // the newest one that was none
	from    clock.Time    // when the newest one began
	backAt  clock.Time    // when it ended
	used    int           // what was granted in it
	ignored clock.Time    // what left before says nothing of the network
}

// begin lets the time without an answer begin now.
func (a *allowance) begin(now clock.Time, round time.Duration) {
	a.heardAt, a.nextAt, a.bytes = now, now.Add(round+grantTime), 0
}

// stop grants nothing until something comes back.
func (a *allowance) stop() { a.heardAt, a.bytes = 0, 0 }

// heard takes in that something came back. Windows of few packets are no rate: others' queues make them silent. After a silence comes a round trip that counts
// before the next one.
func (a *allowance) heard(s *State, b *batch) {
	if a.silence > 0 && b.delay > 0 && b.left >= a.backAt {
		a.judge(b, s.delay.target)
	}
	late := b.Now.Sub(a.heardAt) - b.Smoothed
	switch {
	case late <= absent || a.heardAt == 0 || a.silence > 0 || s.Window < leastRate*s.packet:
	case b.held > away && 2*b.held > late: // the ends say themselves that they were away
		a.silence, a.from, a.backAt, a.used = 0, a.heardAt, b.Now, a.bytes
		a.absence.Late(late, b.Now)
		if a.used >= a.most {
			a.grow()
		}
	default:
		a.silence, a.from, a.backAt, a.used = late, a.heardAt, b.Now, a.bytes
		if a.absence.Now(b.Now) > 0 {
			// Packets sent before this waited at one of the ends: their round trips say nothing of the network.
			a.ignored, b.delay = b.Now, 0
		}
	}
	if b.lost > 0 && a.used > 0 && b.lostAt >= a.from && b.lostAt < a.backAt {
		a.most, a.used, a.careful = max(a.used/2, s.packet), 0, true // the peer did not hold it, or the path
	}
	a.begin(b.Now, b.round)
}

// judge takes in the first round trip after a silence. A queue would still be there. One silence alone may have been a burst of others, which is gone: the shorter
// one of two counts.
func (a *allowance) judge(b *batch, target time.Duration) {
	if b.delay <= target {
		a.absence.Late(min(a.silence, a.before), b.Now)
		a.before = a.silence
		if a.used >= a.most {
			a.grow()
		}
	}
	a.silence = 0
}

// grow raises the bound: a peer has held as much.
func (a *allowance) grow() {
	if a.careful {
		a.most += a.most / slowly
	} else {
		a.most *= 2
	}
	a.most = min(a.most, lastMost)
}

// Began notes that something is in flight again.
func (s *State) Began(now clock.Time) { s.allowance.begin(now, s.round) }

// bound is what may be granted at the most.
func (s *State) bound() int { return max(min(s.allowance.most, lastMost-s.Window), 0) }

// GrantAt is when a silence lets more than the window be in flight, and zero when it will not.
func (s *State) GrantAt(now clock.Time) clock.Time {
	a := &s.allowance
	absence := a.absence.Now(now)
	switch {
	case absence == 0, a.heardAt == 0, a.bytes >= s.bound(), s.Window < leastRate*s.packet, s.drain.active(), a.nextAt > a.heardAt.Add(s.round+absence):
		return 0
	}
	return a.nextAt
}

// Grant lets more than the window be in flight if that is due: as much as left in an equal time before.
func (s *State) Grant(now clock.Time) {
	at := s.GrantAt(now)
	if at == 0 || now < at {
		return
	}
	a, each := &s.allowance, max(s.round, grantTime)
	n := int64(s.Window) * int64(each) / int64(max(s.round, s.delay.target, shortest))
	a.bytes = min(a.bytes+int(n)*rateNum/rateDen, s.bound())
	a.nextAt = now.Add(each)
}
