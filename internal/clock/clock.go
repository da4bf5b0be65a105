package clock

import (
	"math"
	"time"
)

// Time is a point on a monotonic clock, in nanoseconds from an origin that means nothing. Virtual clocks in tests
// start wherever they like.
type Time int64

// Never is later than every deadline.
const Never Time = math.MaxInt64

// Add returns t+d, and Never when that is past the end of time.
func (t Time) Add(d time.Duration) Time {
	if d > 0 && t > Never-Time(d) {
		return Never
	}
	return t + Time(d)
}

// Sub returns the duration t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Source reads a clock. The engine is handed times; only its owner holds a Source.
type Source func() Time

var origin = time.Now()

// Machine reads the machine's monotonic clock, in nanoseconds since the process began plus one second, so that no
// reading is zero.
func Machine() Time { return Time(time.Since(origin)) + Time(time.Second) }
