package trace

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Limit is what keeps a connection from sending more now.
type Limit uint8

// The limits. A connection has exactly one at any time, so that their shares sum up to the time that it is open.
const (
	LimitApplication Limit = iota // nothing is posted that is not sent, or it waits for what was posted before
	LimitReceive                  // the peer has no receive for the next SEND
	LimitRead                     // the outbound read limit is used up, or a read fence waits
	LimitFabric                   // the window for the path: round trip, loss, marks
	LimitEndpoint                 // the window for the peer: its receive memory, or the packets that it holds
	LimitRing                     // the link had no transmit frame
	LimitCPU                      // the engine's turn ended, or that of the connection
	NumLimits
)

var limitNames = [NumLimits]string{"application", "receive", "read", "fabric", "endpoint", "ring", "cpu"}

// String is the name as metrics print it.
func (l Limit) String() string { return limitNames[l] }

// LimitTimes is how long each limit blocked a connection since it was last idle. Earlier times are in a LimitHistory. Its zero value begins
// at time zero with LimitApplication.
type LimitTimes struct {
	spent [NumLimits]time.Duration // but LimitApplication, which is the rest
	since clock.Time               // of by
	by    Limit
}

// Begin starts the account of a connection that was idle until now.
func (l *LimitTimes) Begin(now clock.Time) { l.since = now }

// By is what holds the connection back.
func (l *LimitTimes) By() Limit { return l.by }

// Note takes in what holds the connection back from now on, here and in the totals of its engine.
func (l *LimitTimes) Note(now clock.Time, by Limit, totals *LimitTotals) {
	if by == l.by {
		return
	}
	l.spent[l.by] += now.Sub(l.since)
	totals.move(now, l.by, by)
	l.by, l.since = by, now
}

// LimitHistory is what the ledgers before the connection was last idle sum up to, in seconds. A float has a range of years in four bytes, and
// whatever rounding takes away is below a millionth.
type LimitHistory [NumLimits - 1]float32

// Add takes in a times whose connection becomes idle.
func (h *LimitHistory) Add(l *LimitTimes) {
	for i := range h {
		h[i] += float32(l.spent[i+1].Seconds())
	}
}

// Shares splits the age of a connection among the limits, until now. The rest is the application's. l is nil for an idle connection.
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

// LimitTotals counts the open connections of an engine by what holds them back, and sums up the time over all of them. The sums
// never fall, also when connections end.
type LimitTotals struct {
	count  [NumLimits]uint64
	micros [NumLimits]uint64 // of connection time: nanoseconds would not last two days with 100,000 connections
	at     clock.Time        // what is summed up
}

// fold sums up until now.
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

// Exit ends what Enter began.
func (s *LimitTotals) Exit(now clock.Time, l Limit) {
	s.fold(now)
	s.count[l]--
}

func (s *LimitTotals) move(now clock.Time, from, to Limit) {
	s.fold(now)
	s.count[from]--
	s.count[to]++
}

// Limited is how many open connections each limit holds back.
func (s *LimitTotals) Limited() [NumLimits]uint64 { return s.count }

// Micros is how long connections were held back by each limit until now, in microseconds summed over connections.
func (s *LimitTotals) Micros(now clock.Time) [NumLimits]uint64 {
	s.fold(now)
	return s.micros
}
