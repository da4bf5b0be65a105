package lifetime

import (
	"math"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Liveness is when the peer was heard, and how often it was asked for a sign of life since.
type Liveness struct {
	heardAt clock.Time
	askAt   clock.Time // again, while asked
	asked   uint16
}

// Heard takes in a sign of life.
func (l *Liveness) Heard(now clock.Time) { l.heardAt, l.asked = now, 0 }

// Maybe takes in what may be a sign of life: a peer that was asked stays asked.
func (l *Liveness) Maybe(now clock.Time) { l.heardAt = now }

// HeardAt is when the newest sign of life came.
func (l *Liveness) HeardAt() clock.Time { return l.heardAt }

// Asked is how often the peer was asked since then.
func (l *Liveness) Asked() int { return int(l.asked) }

// AskAt is when to ask the peer, which may be silent until quiet.
func (l *Liveness) AskAt(quiet clock.Time) clock.Time {
	if l.asked > 0 {
		return l.askAt
	}
	return quiet
}

// Ask says whether to send a keep-alive, and counts it. It returns false if the peer is dead: after MaxPings, or after the time that it may
// be stalled.
func (l *Liveness) Ask(now clock.Time, stalled time.Duration) bool {
	if int(l.asked) >= min(max(MaxPings, int(stalled/PingInterval)), math.MaxUint16) {
		return false
	}
	l.asked++
	l.askAt = now.Add(PingInterval)
	return true
}

// QuietFor is how long a peer may be silent with conns connections: at least configured. It is long enough that at most perSecond peers are
// asked per second. The passive end waits an eighth longer. Both ends have last heard the peer at about the same time, and one keep-alive
// serves both.
func QuietFor(configured time.Duration, conns, perSecond uint64, active bool) time.Duration {
	quiet := max(configured, time.Duration(conns)*(time.Second/time.Duration(perSecond)))
	if !active {
		quiet += quiet / passivePart
	}
	return quiet
}

const passivePart = 8

// Keep-alives are spread over this many moments of the silence that a peer may keep, or over more if so many peers would be asked at one
// moment: a burst would overrun rings on its way.
const (
	beats   = 32
	perBeat = 16
)

// Together is when to ask one of conns peers that is silent until quiet: up to a beat later, at a moment when others are asked, too. An engine with
// many idle connections would else wake up for each of them.
func Together(quiet clock.Time, silence time.Duration, conns uint64) clock.Time {
	beat := clock.Time(max(uint64(silence)/max(beats, conns/perBeat), 1))
	return (quiet + beat - 1) / beat * beat
}
