package recovery

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// marking is an ECN state whose connection has sent 100 packets.
type marking struct {
	ECN
	now clock.Time
}

func newMarking() *marking {
	m := &marking{now: clock.Time(time.Second)}
	m.Agree()
	m.Left(100)
	return m
}

// row lets n packets arrive. rested says whether they left after a rest, marked says whether the peer reports them as marked.
func (m *marking) row(n int, rested, marked bool) (failed bool) {
	for range n {
		if marked {
			m.Marked(1)
		}
		m.Acknowledged(rested)
		failed = m.Everything() || failed
	}
	return failed
}

// rowOfTimeouts lets n consecutive time-outs happen, each with a packet of its own, from a packet number on.
func (m *marking) rowOfTimeouts(n int, number uint64) {
	for i := range n {
		m.TimedOut(i+1, number+uint64(i), m.now)
	}
}

// Packets are sent with ECT(0) until the path loses them or marks all of them, or the peer reports impossible marks.
func TestPathsOfMarks(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(m *marking)
		used bool
	}{
		{"nothing happened", func(*marking) {}, true},
		{"two time-outs", func(m *marking) { m.rowOfTimeouts(silences-1, 50) }, true},
		{"three time-outs", func(m *marking) { m.rowOfTimeouts(silences, 50) }, false},
		{"two and two", func(m *marking) { m.rowOfTimeouts(silences-1, 50); m.rowOfTimeouts(silences-1, 60) }, true},
		{"a packet of the silence arrives", func(m *marking) { m.rowOfTimeouts(silences, 50); m.Late(51) }, true},
		{"one of before it does", func(m *marking) { m.rowOfTimeouts(silences, 50); m.Late(49) }, false},
		{"one that cannot be marked does", func(m *marking) { m.rowOfTimeouts(silences, 50); m.Late(52) }, false},
		{"progress in silence", func(m *marking) { m.rowOfTimeouts(silences, 50); m.Progress(m.now.Add(retryAfter - 1)) }, false},
		{"progress after long", func(m *marking) { m.rowOfTimeouts(silences, 50); m.Progress(m.now.Add(retryAfter)) }, true},
		{"contents lost often", func(m *marking) { m.LostAgain(MostLosses-1, 50, m.now) }, true},
		{"contents lost very often", func(m *marking) { m.LostAgain(MostLosses, 50, m.now) }, false},
		{"all marked after rests", func(m *marking) { m.row(allMarked, true, true) }, false},
		{"not yet all", func(m *marking) { m.row(allMarked-1, true, true) }, true},
		{"all marked without rests", func(m *marking) { m.row(10*allMarked, false, true) }, true},
		{"rests end", func(m *marking) {
			m.row(allMarked-1, true, true)
			m.row(1, false, true)
			m.row(allMarked-1, true, true)
		}, true},
		{"most marked", func(m *marking) {
			for range 20 {
				m.row(allMarked/2, true, true)
				m.row(1, true, false)
			}
		}, true},
		{"told late", func(m *marking) {
			for range allMarked {
				m.Acknowledged(true)
				m.Marked(1)
				m.Everything()
			}
		}, false},
		{"as many as were sent", func(m *marking) { m.Reported(100, 0, false) }, true},
		{"more than were sent", func(m *marking) { m.Reported(101, 0, false) }, false},
		{"fewer than before", func(m *marking) { m.Reported(9, 10, false) }, false},
		{"fewer, overtaken", func(m *marking) { m.Reported(9, 10, true) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMarking()
			c.do(m)
			if used := m.Field() == wire.ECT0; used != c.used {
				t.Errorf("packets can be marked: %v, want %v", used, c.used)
			}
			if counts := m.Marked(1); counts != c.used {
				t.Errorf("marks count: %v, want %v", counts, c.used)
			}
		})
	}
}

// A packet left after a rest if pacing at the least window held it back, and not if it left when the packet before was acknowledged, unless
// the path is long.
func TestRests(t *testing.T) {
	for round, soon := range map[time.Duration]bool{20 * time.Microsecond: false, 300 * time.Microsecond: false, time.Millisecond: true, 50 * time.Millisecond: true} {
		var r RTT
		r.Sample(round)
		if paced := max(round, min(16*round, time.Millisecond)); !r.Rested(paced) {
			t.Errorf("round trip %v: %v are no rest", round, paced)
		}
		if r.Rested(round) != soon {
			t.Errorf("a round trip of %v is a rest: %v, want %v", round, !soon, soon)
		}
	}
}

// After marks proved useless, ECT(0) is not tried again. If ECN was not agreed, it never begins.
func TestMarksThatFailedForGood(t *testing.T) {
	m := newMarking()
	if !m.row(allMarked+1, true, true) {
		t.Error("that everything is marked is not told")
	}
	if m.row(allMarked+1, true, true) {
		t.Error("that everything is marked is reported twice")
	}
	m.Progress(clock.Never)
	m.Late(0)
	if m.Field() != wire.NotECT {
		t.Error("packets can be marked again")
	}
	var never ECN
	never.TimedOut(silences, 1, 1)
	never.Progress(clock.Never)
	never.Reported(1, 0, false)
	if never.Agreed() || never.Field() != wire.NotECT {
		t.Error("packets can be marked without an agreement")
	}
}

// Each further loss of ECT(0) packets doubles the time to the next trial, up to a limit.
func TestSilencesAreTriedLessOften(t *testing.T) {
	m := newMarking()
	for i := range maxRetries + 3 {
		wait := retryAfter << min(i, maxRetries)
		m.rowOfTimeouts(silences, uint64(100*i))
		if m.Progress(m.now.Add(wait - 1)); m.Field() == wire.ECT0 {
			t.Fatalf("trial %d comes before %v", i, wait)
		}
		m.now = m.now.Add(wait)
		if m.Progress(m.now); m.Field() != wire.ECT0 {
			t.Fatalf("trial %d does not come after %v", i, wait)
		}
	}
}
