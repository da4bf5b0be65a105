package lifetime

import (
	"math"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Liveness records when the peer was last heard, and how many keep-alives were sent after that.
type Liveness struct {
	heardAt clock.Time
	askAt   clock.Time // time of the next keep-alive, if asked > 0
	asked   uint16
}

// Heard records that the peer is alive.
func (l *Liveness) Heard(now clock.Time) { l.heardAt, l.asked = now, 0 }

// Maybe records a packet that may be from the peer. It does not reset the count of keep-alives.
func (l *Liveness) Maybe(now clock.Time) { l.heardAt = now }

// HeardAt returns when the peer was last heard.
func (l *Liveness) HeardAt() clock.Time { return l.heardAt }

// Asked returns the number of keep-alives sent after that.
func (l *Liveness) Asked() int { return int(l.asked) }

// AskAt returns the time of the next keep-alive. quiet is when the allowed silence ends.
func (l *Liveness) AskAt(quiet clock.Time) clock.Time {
	if l.asked > 0 {
		return l.askAt
	}
	return quiet
}

// Ask reports whether to send a keep-alive, and counts it. It returns false if the peer counts as dead: after MaxPings, or later if
// stalled is longer.
func (l *Liveness) Ask(now clock.Time, stalled time.Duration) bool {
	if int(l.asked) >= min(max(MaxPings, int(stalled/PingInterval)), math.MaxUint16) {
		return false
	}
	l.asked++
	l.askAt = now.Add(PingInterval)
	return true
}

// QuietFor returns how long a peer may be silent before the first keep-alive. It is at least configured, and so long that an engine
// with conns connections sends at most perSecond keep-alives a second. The passive end waits an eighth longer, because both ends
// last heard each other at about the same time and one keep-alive serves both.
func QuietFor(configured time.Duration, conns, perSecond uint64, active bool) time.Duration {
	quiet := max(configured, time.Duration(conns)*(time.Second/time.Duration(perSecond)))
	if !active {
		quiet += quiet / passivePart
	}
	return quiet
}

const passivePart = 8

// Keep-alives are grouped into this many moments of the allowed silence. There are more moments if a group would exceed perBeat,
// because a burst could overrun rings.
const (
	beats   = 32
	perBeat = 64
)

// Together returns when to send the keep-alive of one of conns peers: at the next moment of a group after quiet. Without groups, an
// engine with many idle connections would wake up for each of them.
func Together(quiet clock.Time, silence time.Duration, conns uint64) clock.Time {
	beat := clock.Time(max(uint64(silence)/max(beats, conns/perBeat), 1))
	return (quiet + beat - 1) / beat * beat
}
