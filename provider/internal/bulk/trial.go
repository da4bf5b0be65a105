package bulk

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// phases of a comparison: bulk leaves by the ND port and by the lane in turn. Of each way the second best phase counts: one that was interrupted says
	// nothing, and one into which a burst of late acknowledgements fell says too much.
	phases = 8
	// minPhase is how long a phase counts at the least; roundTrips of them otherwise. A quarter as long before it does not count, because what left by the
	// other way still arrives.
	minPhase   = 5 * time.Millisecond
	roundTrips = 8
	// clearly in eighths is what the other way must move for bulk to change to it: less than an eighth more is noise.
	clearly = 9
	// firstKeep is how long a verdict holds before ways are compared again, and mostKeep how long at the most: the time grows fourfold with each comparison
	// that says the same.
	firstKeep = time.Second
	mostKeep  = 64 * time.Second
)

// Verdict is which way moves bulk faster.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota
	Port            // the ND port, or neither
	Lane
	Always // the lane, without a comparison
)

// String names the verdict.
func (v Verdict) String() string {
	return [...]string{"not compared", "not faster", "faster", "always used"}[v]
}

// trial finds out by which way a connection moves bulk faster, by using each in turn and counting what arrives, at either end: the way that takes less of a processor leaves it to what
// comes. Where both ends sent bulk by the ND port, neither found the lane faster for what it sent itself, and together they moved half. Zero knows nothing.
type trial struct {
	verdicts Verdicts
	again    [classes]clock.Time    // when the ways are compared the next time; zero: when bulk is sent
	keep     [classes]time.Duration // the newest verdict holds
	lengths  lengths

	phase   uint8 // of the comparison under way, from 1 on; zero while there is none
	judged  uint8 // class that it is for
	bytes   int   // that arrived in the phase
	heard   int   // bytes that this end had received when it began to count; negative before
	length  time.Duration
	counted time.Duration // of the phase: time in which something was in flight
	from    clock.Time    // when the phase begins to count
	at      clock.Time    // up to where time is counted
	best    [2][2]float64 // by way: the two most bytes a nanosecond of a phase
}

// verdict is that for the messages of late.
func (t *trial) verdict() Verdict { return t.verdicts[t.lengths.class] }

// lane says whether bulk that leaves now, of a message with so many bytes, takes the lane, which is proven. roundTrip is the smoothed one. It begins a comparison when one is due.
func (t *trial) lane(message int, now clock.Time, roundTrip time.Duration) bool {
	k := t.lengths.sees(message)
	switch {
	case t.phase > 0:
		return t.phase%2 == 0
	case t.verdicts[k] != Unknown && t.again[k] == 0:
		t.keep[k] = firstKeep
		t.again[k] = now.Add(firstKeep)
	case now >= t.again[k]:
		t.judged = k
		t.length = max(minPhase, roundTrips*roundTrip)
		t.best = [2][2]float64{}
		t.enter(1, now)
		return false
	}
	return t.verdicts[k] == Lane
}

// enter begins a phase.
func (t *trial) enter(phase uint8, now clock.Time) {
	t.phase, t.bytes, t.heard, t.counted = phase, 0, -1, 0
	t.from, t.at = now.Add(t.length/4), now
}

// alone takes in that a packet leaves while nothing is in flight: the time before says nothing of a way.
func (t *trial) alone(now clock.Time) { t.at = now }

// arrived takes in that so many bytes arrived, and that this end has received so many of its own by now. It reports whether there is a new verdict.
func (t *trial) arrived(bytes, received int, now clock.Time) (found bool) {
	if t.phase == 0 || now < t.from {
		return false
	}
	if t.heard < 0 {
		t.heard = received
	}
	t.counted += now.Sub(max(t.at, t.from))
	t.at = now
	t.bytes += bytes
	if t.counted < t.length {
		return false
	}
	best, speed := &t.best[t.phase%2], float64(t.bytes+received-t.heard)/float64(t.counted)
	switch {
	case speed > best[0]:
		best[0], best[1] = speed, best[0]
	case speed > best[1]:
		best[1] = speed
	}
	if t.phase < phases {
		t.enter(t.phase+1, now)
		return false
	}
	t.judge(now)
	return true
}

// judge ends a comparison.
func (t *trial) judge(now clock.Time) {
	port, lane := t.best[1][1], t.best[0][1]
	v, was, keep := Port, &t.verdicts[t.judged], &t.keep[t.judged]
	if 8*lane > clearly*port || *was == Lane && clearly*lane > 8*port {
		v = Lane
	}
	if *keep = min(4**keep, mostKeep); v != *was || *keep == 0 {
		*keep = firstKeep
	}
	*was, t.phase, t.again[t.judged] = v, 0, now.Add(*keep)
}

// stop ends the comparison under way: the lane was left.
func (t *trial) stop() { t.phase = 0 }
