package clock

import (
	"math"
	"time"
)

// Time is a point on a monotonic clock, in nanoseconds from an arbitrary origin. Virtual clocks in tests begin anywhere.
type Time int64

// Never is later than every deadline.
const Never Time = math.MaxInt64

// Add returns t+d, or Never if it overflows.
func (t Time) Add(d time.Duration) Time {
	if d > 0 && t > Never-Time(d) {
		return Never
	}
	return t + Time(d)
}

// Sub returns the duration t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Source reads a clock. Engines get times as arguments; only their owners have a Source.
type Source func() Time

var origin = time.Now()

// Machine reads the machine's monotonic clock, in nanoseconds after the start of the process plus one second, so that no reading is
// zero.
func Machine() Time { return Time(time.Since(origin)) + Time(time.Second) }
