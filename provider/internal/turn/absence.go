package turn

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Absence is how long an end of a connection was recently descheduled, as its peer noticed. It answers when it runs again, so
// retransmissions meanwhile were in vain. So timers wait for this time: beside other busy processes, nearly all retransmitted packets had
// arrived. The value halves every absenceHalves, so that losses are found quickly again when the ends are no longer descheduled. The zero
// value is no absence.
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
