package turn

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Absence estimates how long the peer may be descheduled. If a descheduled peer answers late, the retransmissions in between were
// spurious. Retransmission timers therefore wait longer by this time. The estimate halves every absenceHalves, so that losses are
// found quickly again once both ends run. The zero Absence is no delay, and a nil one stays so.
type Absence struct {
	late time.Duration
	at   clock.Time // time of the newest late answer
}

const (
	maxAbsence    = 100 * time.Millisecond // what a busy host holds packets of many connections
	absenceHalves = time.Second
)

// Late records that an answer was late by d because one of the ends was descheduled.
func (a *Absence) Late(d time.Duration, now clock.Time) {
	if a == nil {
		return
	}
	a.late, a.at = min(max(a.Now(now), d+d/4), maxAbsence), now
}

// Now returns how long an end may be descheduled.
func (a *Absence) Now(now clock.Time) time.Duration {
	if a == nil || a.late == 0 {
		return 0
	}
	return a.late >> min(uint64(now.Sub(a.at)/absenceHalves), 32)
}
