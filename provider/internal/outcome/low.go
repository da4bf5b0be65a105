package outcome

import "math"

// Low is a list of calls that wait until a count is below a threshold. With the zero value, no count is. The owner guards it.
type Low struct {
	Waiters
	threshold uint32
	unfilled  bool // the count must reach the threshold first
}

// SetThreshold changes the threshold. It also cancels UntilFilled. Thresholds above the largest uint32 have the effect of the
// largest uint32, because no count is as large.
func (l *Low) SetThreshold(n int) {
	l.threshold, l.unfilled = uint32(min(uint64(n), math.MaxUint32)), false
}

// UntilFilled makes the calls wait until the count has reached the threshold and fallen below it.
func (l *Low) UntilFilled() { l.unfilled = true }

// Count sets the count. It must be called for each change, also upwards. If the count is below the threshold, every call ends with
// Success.
func (l *Low) Count(n uint32) {
	if n >= l.threshold {
		l.unfilled = false
	} else if !l.unfilled {
		l.Finish(Success)
	}
}
