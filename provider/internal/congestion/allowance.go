package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
)

// On machines that share processors, an end may be descheduled for milliseconds. Packets that arrive meanwhile wait in its memory,
// and it sends no acknowledgements. A window covers a round trip of microseconds, so it fills at once. If each end has half a
// processor, both run for only a quarter of the time, and data would move only then. So a sender that has seen absences goes on
// without acknowledgements. It sends at its previous rate, for as long as recent absences lasted, and at most as many bytes as the
// peer had memory for.

const (
	// absent is the least silence beyond a round trip that counts as an absence.
	absent = 200 * time.Microsecond
	// away is the longest time that an end which is running holds a packet.
	away = turn.AnswerTime + absent
	// grantTime is the least time between two grants, because the sender wakes up for each.
	grantTime = 100 * time.Microsecond
	// The rate is rateNum/rateDen of a window per round trip. It uses the least recent round trip, because no queue may grow.
	rateNum, rateDen = 3, 4
	// shortest is the shortest round trip that a rate is computed from.
	shortest = grantTime / 16
	// firstMost is the first assumption about the peer's memory, and lastMost the largest. Both include the window. lastMost is
	// 1425 packets of 1500 bytes; a receive ring of this project has 2048 in copy mode. After a loss, the bound grows by 1/slowly
	// of itself, because each bound that is too high costs packets.
	firstMost, lastMost = 128 << 10, 2 << 20
	slowly              = 16
	// leastRate is the least window in packets that tells the rate of the path.
	leastRate = 2
)

// allowance is what may be in flight beyond the window while no acknowledgement arrives.
type allowance struct {
	bytes   int          // current allowance
	most    int          // largest allowance: the most that the peer has held so far
	careful bool         // the peer has once held less than most
	absence turn.Absence // recent absences of either end
	heardAt clock.Time   // when the last acknowledgement arrived, or a packet left with none in flight; zero after a time-out
	nextAt  clock.Time   // time of the next grant

	silence time.Duration // newest silence, until a round trip shows whether a queue caused it; then zero
	before  time.Duration // previous silence that no queue caused
	from    clock.Time    // beginning of the newest silence
	backAt  clock.Time    // end of the newest silence
	used    int           // bytes granted during the newest silence
	ignored clock.Time    // samples of packets sent before are ignored, because they include an absence
}

// begin starts the measurement of a silence.
func (a *allowance) begin(now clock.Time, round time.Duration) {
	a.heardAt, a.nextAt, a.bytes = now, now.Add(round+grantTime), 0
}

// stop ends grants until an acknowledgement arrives.
func (a *allowance) stop() { a.heardAt, a.bytes = 0, 0 }

// heard handles an acknowledgement. Silences with a window of few packets are ignored, because queues of other flows cause them. The round
// trip after a silence shows whether a queue caused the silence. Until then no other silence is recorded.
func (a *allowance) heard(s *State, b *batch) {
	if a.silence > 0 && b.delay > 0 && b.left >= a.backAt {
		a.judge(b, s.delay.target)
	}
	late := b.Now.Sub(a.heardAt) - b.Smoothed
	switch {
	case late <= absent || a.heardAt == 0 || a.silence > 0 || s.Window < leastRate*s.packet:
	case b.held > away && 2*b.held > late: // timestamps of the ends prove an absence
		a.silence, a.from, a.backAt, a.used = 0, a.heardAt, b.Now, a.bytes
		a.absence.Late(late, b.Now)
		if a.used >= a.most {
			a.grow()
		}
	default:
		a.silence, a.from, a.backAt, a.used = late, a.heardAt, b.Now, a.bytes
		if a.absence.Now(b.Now) > 0 {
			// Packets sent before now waited at one of the ends, so their round trips do not describe the network.
			a.ignored, b.delay = b.Now, 0
		}
	}
	if b.lost > 0 && a.used > 0 && b.lostAt >= a.from && b.lostAt < a.backAt {
		a.most, a.used, a.careful = max(a.used/2, s.packet), 0, true // the peer or the path did not hold it
	}
	a.begin(b.Now, b.round)
}

// judge uses the first round trip after a silence: if a queue caused the silence, the queue would still be there. One silence alone
// may have been another flow's burst that is gone, so the shorter of the last two counts.
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

// grow raises the bound, because the peer has held as much.
func (a *allowance) grow() {
	if a.careful {
		a.most += a.most / slowly
	} else {
		a.most *= 2
	}
	a.most = min(a.most, lastMost)
}

// Began records that a packet left with none in flight.
func (s *State) Began(now clock.Time) { s.allowance.begin(now, s.round) }

// bound returns the largest allowed grant.
func (s *State) bound() int { return max(min(s.allowance.most, lastMost-s.Window), 0) }

// GrantAt returns the time of the next grant, or zero if there is none.
func (s *State) GrantAt(now clock.Time) clock.Time {
	a := &s.allowance
	absence := a.absence.Now(now)
	switch {
	case absence == 0, a.heardAt == 0, a.bytes >= s.bound(), s.Window < leastRate*s.packet, s.drain.active(), a.nextAt > a.heardAt.Add(s.round+absence):
		return 0
	}
	return a.nextAt
}

// Grant adds to the allowance if a grant is due: as much as was sent in an equal time before.
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
