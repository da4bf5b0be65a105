package congestion

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Outside of data centers a mark reduces the window once in a round trip as RFC 8511 says, however many packets were marked. Inside
// a data center the window shrinks by half of the marked share.
func TestMarksAndTheWindow(t *testing.T) {
	const round, window = 100 * time.Microsecond, 100 * testPacket
	for _, x := range []struct {
		name   string
		center bool
		marks  []int // for each round trip of 100 packets
		want   int   // packets
	}{
		{"none", false, []int{0, 0, 0}, 100},
		{"one", false, []int{1}, 85},
		{"all", false, []int{100}, 85},
		{"twice", false, []int{1, 1}, 72},
		{"none in a data center", true, []int{0, 0, 0}, 100},
		{"all in a data center", true, []int{100}, 97},
	} {
		s := newState()
		s.window, s.threshold = window, window
		now := clock.Time(time.Second)
		for _, marks := range x.marks {
			for range 2 { // acknowledgements in the second half of a round trip change nothing
				b := batch{Path: Path{Now: now.Add(round / 4), Smoothed: round}, round: round, delivered: 50 * testPacket, marks: (marks + 1) / 2}
				if x.center {
					s.marks.dctcp(s, &b)
				} else {
					s.marks.classic(s, &b)
				}
				now = now.Add(round/2 + 1)
			}
			now = now.Add(1)
		}
		if got := (s.window + testPacket/2) / testPacket; got != x.want {
			t.Errorf("%s: %d packets are left of 100, want %d", x.name, got, x.want)
		}
	}
}

// A window does not grow while nearly all recent packets were marked. Packets without marks, such as answers to READs, do not make
// it grow either.
func TestNoGrowthWhereNearlyAllIsMarked(t *testing.T) {
	for marked, grows := range map[int]bool{0: true, markSample / 2: true, nearlySample - 1: true, nearlySample: false, markSample: false} {
		s := newState()
		s.window, s.threshold = 100*testPacket, MaxWindow
		now := clock.Time(time.Second)
		conclude := func() {
			now = now.Add(time.Millisecond)
			s.Held(now)
			s.Conclude(&Delay{}, Path{Now: now, Smoothed: 100 * time.Microsecond})
		}
		for i := range markSample {
			if i < marked {
				s.Marked(1)
			}
			s.Arrived()
		}
		conclude()
		before := s.window
		s.Delivered(50 * testPacket)
		if conclude(); s.window > before != grows {
			t.Errorf("%d of %d packets marked: a window of %d became %d", marked, markSample, before, s.window)
		}
		for range markSample {
			s.Arrived()
		}
		before = s.window
		s.Delivered(50 * testPacket)
		if conclude(); s.window <= before {
			t.Errorf("%d packets marked before, and none since: a window of %d stays %d", marked, before, s.window)
		}
	}
}

// After a mark the window grows like CUBIC's, because CUBIC flows share the queue that marks packets.
func TestMarkedWindowsGrowAsCubic(t *testing.T) {
	s := newState()
	s.window, s.threshold = 100*testPacket, 100*testPacket
	s.Marked(1)
	s.Delivered(testPacket)
	s.Conclude(&Delay{}, Path{Now: clock.Time(2 * time.Second), Smoothed: 100 * time.Microsecond})
	if s.cubic.from != 100*testPacket {
		t.Errorf("the plateau is at %d bytes", s.cubic.from)
	}
	s = newState()
	s.window, s.threshold = 100*testPacket, 100*testPacket
	s.Marked(1)
	s.Delivered(testPacket)
	s.Conclude(&Delay{DataCenter: true}, Path{Now: clock.Time(2 * time.Second), Smoothed: 100 * time.Microsecond})
	if s.cubic.from != 0 {
		t.Errorf("in a data center there is a plateau at %d bytes", s.cubic.from)
	}
}

// A peer chooses the counts in its reports of marks, and one batch may have many reports. Whatever their sum, the window does not
// grow.
func TestHostileMarks(t *testing.T) {
	for _, n := range []int{1 << 31, 1 << 33, 1 << 35, 1 << 36, 3 << 35, 1 << 37} {
		for _, packet := range []int{1200, 1472, 8972, 65507} {
			s := new(State)
			s.Reset(&Delay{DataCenter: true}, packet)
			now := clock.Time(time.Second)
			for range 2000 {
				now = now.Add(100 * time.Microsecond)
				s.Held(now)
				s.Marked(n)
				s.Delivered(1)
				s.Sample(60*time.Microsecond, packet, now.Add(-60*time.Microsecond))
				s.Conclude(&Delay{DataCenter: true}, Path{Now: now, Smoothed: 60 * time.Microsecond})
				if s.window > MaxWindow || !s.Valid() {
					t.Fatalf("%d marks in a round trip make a window of %d", n, s.window)
				}
			}
		}
	}
}
