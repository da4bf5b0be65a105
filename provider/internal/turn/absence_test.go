package turn

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// If an unnecessary retransmission shows that the peer was descheduled, timers wait for as long as it was. The extra time of the
// timers halves again and again.
func TestTimersWaitForPeersOffTheirCore(t *testing.T) {
	const start, ms = clock.Time(time.Hour), time.Millisecond
	var a Absence
	if got := a.Now(start); got != 0 {
		t.Errorf("%v before anything was late", got)
	}
	for _, c := range []struct {
		late, want time.Duration
		after      time.Duration // until the time is queried
		then       time.Duration
	}{
		{4 * ms, 5 * ms, absenceHalves, 5 * ms / 2},
		{ms, 5 * ms, 3 * absenceHalves, 5 * ms / 8}, // a shorter absence does not replace a longer one
		{time.Second, maxAbsence, time.Hour, 0},
	} {
		a.Late(c.late, start)
		if got := a.Now(start); got != c.want {
			t.Errorf("after an answer that was %v late: %v, want %v", c.late, got, c.want)
		}
		if got := a.Now(start.Add(c.after)); got != c.then {
			t.Errorf("after an answer that was %v late, %v later: %v, want %v", c.late, c.after, got, c.then)
		}
	}
}
