package trace

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Limit is what blocks a connection from sending more.
type Limit uint8

// Limits of a connection. Exactly one applies at any time, so that their times sum up to the time that the connection is open.
const (
	LimitApplication Limit = iota // no unsent request is posted, or the next one waits for earlier ones
	LimitReceive                  // the peer has no receive for the next SEND
	LimitRead                     // the outbound read limit is reached, or a read fence waits
	LimitFabric                   // the window for the network: round trip, loss, marks
	LimitEndpoint                 // the window for the receiver: its receive memory, or the packets that it stores
	LimitRing                     // the link had no transmit frame
	LimitCPU                      // the engine's poll, or the connection's share of it, ended
	NumLimits
)

var limitNames = [NumLimits]string{"application", "receive", "read", "fabric", "endpoint", "ring", "cpu"}

// String returns the name used in metrics.
func (l Limit) String() string { return limitNames[l] }

// LimitTimes is how long each limit has blocked a connection after it was last idle. LimitHistory has the time before. The zero
// value begins at time zero with LimitApplication.
type LimitTimes struct {
	spent [NumLimits]time.Duration // all but LimitApplication, which is the remainder
	since clock.Time               // when the present limit began
	by    Limit
}

// Begin starts the times of a connection that was idle.
func (l *LimitTimes) Begin(now clock.Time) { l.since = now }

// By returns the present limit.
func (l *LimitTimes) By() Limit { return l.by }

// Note changes the present limit, here and in the totals of the engine.
func (l *LimitTimes) Note(now clock.Time, by Limit, totals *LimitTotals) {
	if by == l.by {
		return
	}
	l.spent[l.by] += now.Sub(l.since)
	totals.move(now, l.by, by)
	l.by, l.since = by, now
}

// LimitHistory is how long each limit blocked the connection before it was last idle, in seconds. Four bytes of a float have a
// range of years, with a rounding error below a millionth.
type LimitHistory [NumLimits - 1]float32

// Add adds the times of a connection that becomes idle.
func (h *LimitHistory) Add(l *LimitTimes) {
	for i := range h {
		h[i] += float32(l.spent[i+1].Seconds())
	}
}

// Shares splits the age of a connection among the limits until now. The remainder is the application's. l is nil for an idle
// connection.
func (h *LimitHistory) Shares(age time.Duration, l *LimitTimes, now clock.Time) (shares [NumLimits]time.Duration) {
	shares[LimitApplication] = age
	for i := range h {
		limit := Limit(i + 1)
		d := time.Duration(float64(h[i]) * float64(time.Second))
		if l != nil {
			d += l.spent[limit]
			if l.by == limit {
				d += now.Sub(l.since)
			}
		}
		shares[limit] = d
		shares[LimitApplication] -= d
	}
	shares[LimitApplication] = max(shares[LimitApplication], 0)
	return shares
}

// LimitTotals counts the open connections of an engine by their limits, and sums up the time over all connections. The sums never
// fall, even when connections end.
type LimitTotals struct {
	count  [NumLimits]uint64
	micros [NumLimits]uint64 // connection time, in microseconds because nanoseconds would overflow in two days with 100,000 connections
	at     clock.Time        // the sums are up to this time
}

// fold brings the sums up to now.
func (s *LimitTotals) fold(now clock.Time) {
	d := now.Sub(s.at) / time.Microsecond
	if d <= 0 {
		return
	}
	s.at += clock.Time(d * time.Microsecond)
	for i, n := range s.count {
		s.micros[i] += n * uint64(d)
	}
}

// Enter counts a connection that opens, or arrives from another engine.
func (s *LimitTotals) Enter(now clock.Time, l Limit) {
	s.fold(now)
	s.count[l]++
}

// Exit is the reverse of Enter.
func (s *LimitTotals) Exit(now clock.Time, l Limit) {
	s.fold(now)
	s.count[l]--
}

func (s *LimitTotals) move(now clock.Time, from, to Limit) {
	s.fold(now)
	s.count[from]--
	s.count[to]++
}

// Limited returns the number of open connections by limit.
func (s *LimitTotals) Limited() [NumLimits]uint64 { return s.count }

// Micros returns the time that each limit blocked connections, in microseconds summed over connections.
func (s *LimitTotals) Micros(now clock.Time) [NumLimits]uint64 {
	s.fold(now)
	return s.micros
}
