package turn

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Absence is how long an end of a connection was off its core lately, as far as its peer noticed. Such an end answers when it is back, and what a timer
// repeated meanwhile was repeated in vain. So timers wait for as long as that took: beside other busy processes, nearly all packets that were
// repeated had arrived. The memory of it halves every absenceHalves, so that a loss is found as soon as ever on a path whose ends have their
// cores again. The zero Absence is none.
type Absence struct {
	late time.Duration
	at   clock.Time // when it was last
}

const (
	maxAbsence    = 20 * time.Millisecond // some slices of a scheduler
	absenceHalves = time.Second
)

// Late takes in that an answer took d because one of the ends was off its core.
func (a *Absence) Late(d time.Duration, now clock.Time) {
	a.late, a.at = min(max(a.Now(now), d+d/4), maxAbsence), now
}

// Now is how long an end may be off its core now.
func (a *Absence) Now(now clock.Time) time.Duration {
	if a.late == 0 {
		return 0
	}
	return a.late >> min(uint64(now.Sub(a.at)/absenceHalves), 32)
}
