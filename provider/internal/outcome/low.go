package outcome

import "math"

// Low are calls that wait until a count is below a threshold. The zero value has threshold 0, and no count is below it. The owner of the
// value guards it.
type Low struct {
	Waiters
	threshold uint32
	unfilled  bool // the count has to reach the threshold first
}

// SetThreshold changes the threshold. A count below it is one from now on, whatever UntilFilled said. No count is as large as the largest value, so
// that what is beyond means the same.
func (l *Low) SetThreshold(n int) {
	l.threshold, l.unfilled = uint32(min(uint64(n), math.MaxUint32)), false
}

// UntilFilled makes the calls wait until the count was not below the threshold once.
func (l *Low) UntilFilled() { l.unfilled = true }

// Count takes in what the count is now: each change has to be told, upwards too. It ends every call with Success when that is low.
func (l *Low) Count(n uint32) {
	if n >= l.threshold {
		l.unfilled = false
	} else if !l.unfilled {
		l.Finish(Success)
	}
}
