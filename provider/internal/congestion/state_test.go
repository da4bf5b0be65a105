package congestion

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const testPacket = 1472

// signals passes round trips to a controller, one for each batch. The window always limited the sender.
func signals(s *State, bytes int, delays ...time.Duration) {
	for _, d := range delays {
		now := s.limitedAt.Add(d)
		s.Held(now)
		s.Delivered(bytes)
		s.Sample(d, testPacket, now.Add(-d))
		s.Conclude(&Delay{}, Path{Now: now, Smoothed: d})
	}
}

func newState() *State {
	s := new(State)
	s.Reset(&Delay{}, testPacket)
	s.limitedAt = clock.Time(time.Second)
	return s
}

// Slow start doubles the window until the delay exceeds the target. Then the window grows by a packet in a round trip.
func TestWindowGrows(t *testing.T) {
	const base = 100 * time.Microsecond
	s := newState()
	if s.window != InitialWindow {
		t.Errorf("%d bytes at first", s.window)
	}
	signals(s, InitialWindow, base)
	if s.window != 2*InitialWindow {
		t.Errorf("%d bytes after the first round trip", s.window)
	}
	s.threshold = s.window
	before := s.window
	signals(s, before, base)
	if d := s.window - before - testPacket; d < -testPacket/8 || d > testPacket/8 {
		t.Errorf("%d became %d in a round trip of avoidance", before, s.window)
	}
	s.limitedAt = 0
	before = s.window
	s.Delivered(8 * testPacket)
	s.Sample(base, testPacket, clock.Time(5*time.Second).Add(-base))
	s.Conclude(&Delay{}, Path{Now: clock.Time(5 * time.Second), Smoothed: base})
	if s.window != before {
		t.Error("a window that held nothing back grew")
	}
}

// Growth adds up to whole packets, however large the window is and however small the steps are.
func TestGrowthOfLargeWindows(t *testing.T) {
	for _, window := range []int{testPacket, 100 << 10, 12 << 20, 400 << 20} {
		s := newState()
		s.window, s.threshold = window, window
		for got := 0; got < window; got += 2 * testPacket {
			s.grow(2*testPacket, 1)
		}
		if d := s.window - window; d < testPacket*9/10 || d > 3*testPacket {
			t.Errorf("a window of %d grew by %d in a round trip", window, d)
		}
	}
}

// The window shrinks by 0.8 of the relative excess of the delay over the target, by half at most, and once in a round trip.
func TestWindowShrinks(t *testing.T) {
	const base = 100 * time.Microsecond
	for _, over := range []time.Duration{10, 20, 100} {
		s := newState()
		s.window = 4 * testPacket
		s.path.restart(0, base)
		s.path.all.until = clock.Never
		want := target(base, 0, scale(s.window, testPacket))
		d := want * (100 + over) / 100
		signals(s, testPacket, d)
		keep := max(1000-800*int(d-want)/int(d), 500)
		if got := s.window * 1000 / (4 * testPacket); got < keep-2 || got > keep+2 {
			t.Errorf("%d %% over the target %d/1000 of the window are left, want %d", over, got, keep)
		}
		left := s.window
		s.Sample(d, testPacket, s.limitedAt.Add(-d/2))
		s.Conclude(&Delay{}, Path{Now: s.limitedAt.Add(d / 2), Smoothed: d})
		if s.window != left {
			t.Error("it shrank twice in a round trip")
		}
	}
}

// A single round trip of milliseconds means that the peer was descheduled. It does not count with its full length.
func TestOneLongRoundTripIsNoQueue(t *testing.T) {
	const base = 20 * time.Microsecond
	s := newState()
	s.window = 64 * testPacket
	signals(s, 8*testPacket, base, base, base, base, base, base, base, base, 5*time.Millisecond)
	if s.window < 64*testPacket {
		t.Errorf("%d bytes are left of 64 packets", s.window)
	}
}

// Growth below a packet does not depend on the window. With a proportional decrease this makes shares equal.
func TestSmallWindowsGrowAlike(t *testing.T) {
	for _, from := range []int{testPacket / leastShare, testPacket / 2, testPacket - 1} {
		s := State{window: from, packet: testPacket}
		s.grow(testPacket, 1)
		if s.window != from+testPacket {
			t.Errorf("one acknowledgement makes %d of %d", s.window, from)
		}
	}
}

func TestFlowScaling(t *testing.T) {
	last := time.Hour
	for w := testPacket / 16; w <= MaxWindow; w *= 2 {
		now := target(100, 0, scale(w, testPacket))
		if now > last || now < 100+minQueueing || now > 100+2*minQueueing {
			t.Errorf("window %d: target %v, of a smaller window %v", w, now, last)
		}
		last = now
	}
	for v := range 1 << 12 {
		if r := isqrt(v + 1); (r-1)*(r-1) > v+1 || (r+1)*(r+1) <= v+1 {
			t.Fatalf("root of %d: %d", v+1, r)
		}
	}
}

// A loss reduces the window less if the queue shows that there is no congestion.
func TestLossAndTheWindow(t *testing.T) {
	const base, aimed = 100 * time.Microsecond, 210 * time.Microsecond
	for _, x := range []struct {
		name             string
		delay, peak, low time.Duration
		lost, good, want int // packets
		held             bool
	}{
		{"without a queue", base, 0, 0, 1, 99, 70, true},
		{"far from the longest queue", base + 20e3, 80e3, 0, 1, 99, 99, false},
		{"a shallow buffer that is full", base + 80e3, 80e3, 0, 1, 99, 70, true},
		{"a buffer as deep as the target that is full", base + 120e3, 120e3, 0, 1, 99, 70, true},
		{"a delay that never falls", base + 80e3, 80e3, 75e3, 1, 99, 99, false},
		{"above the target", 2 * aimed, 300e3, 290e3, 1, 99, 70, true},
		{"heavy", base, 0, 0, 20, 80, 70, true},
	} {
		s := newState()
		s.window = 100 * testPacket
		s.path.restart(0, base)
		s.delay = delaySignal{filtered: x.delay, target: aimed}
		s.losses.peak, s.losses.low, s.losses.now = x.peak, x.low, x.delay-base
		b := batch{Path: Path{Now: clock.Time(time.Hour), Smoothed: x.delay}, round: x.delay, lost: x.lost * testPacket, delivered: x.good * testPacket}
		s.losses.react(s, &b)
		if got := (s.window + testPacket/2) / testPacket; got != x.want || s.losses.holdUntil > b.Now != x.held && x.want < 64 {
			t.Errorf("%s: %d packets are left of 100", x.name, got)
		}
		if s.Lost(testPacket, b.Now-1); s.batch.lost != 0 {
			t.Errorf("%s: a packet that left before counts again", x.name)
		}
	}
}

func TestTimeOutAndUndo(t *testing.T) {
	s := newState()
	s.window = 40 * testPacket
	s.TimedOut(&Delay{}, 0)
	s.TimedOut(&Delay{}, 0)
	if s.Window != testPacket || s.threshold != 20*testPacket {
		t.Errorf("window %d, slow start to %d", s.Window, s.threshold)
	}
	if !s.Undo() || s.Window != 40*testPacket || s.Undo() {
		t.Errorf("window %d after the undo", s.Window)
	}
}

// If a lost packet was only late, its reduction of the window is reverted. A time-out that came later is not, because nothing shows
// that it was spurious.
func TestLatePacketAndTheTimeOut(t *testing.T) {
	const left = clock.Time(time.Hour)
	for _, timeOuts := range []int{0, 1, 2} {
		s := newState()
		s.window = 40 * testPacket
		s.Lost(testPacket, left)
		s.Conclude(&Delay{}, Path{Now: left + 1000, Smoothed: 1000})
		if s.Window >= 40*testPacket {
			t.Fatalf("%d bytes after a loss", s.Window)
		}
		for range timeOuts {
			s.TimedOut(&Delay{}, 0)
		}
		want := 40 * testPacket
		if timeOuts > 0 {
			want = testPacket
		}
		s.Found(left)
		if s.Conclude(&Delay{}, Path{Now: left + 2000, Smoothed: 1000}); s.Window != want {
			t.Errorf("%d time-outs, and the lost packet came: %d packets in flight, want %d", timeOuts, s.Window/testPacket, want/testPacket)
		}
		if did := s.Undo(); did != (timeOuts > 0) || s.Window != 40*testPacket {
			t.Errorf("%d spurious time-outs: %d packets in flight, want 40", timeOuts, s.Window/testPacket)
		}
	}
}

// The receiver's load byte: above 128 the window shrinks in proportion. Below 128 it grows by a packet in a round trip, until it is
// no limit any more.
func TestEndpointWindow(t *testing.T) {
	var w endpoint
	w.reset()
	const network = 256 * testPacket
	now := clock.Time(time.Second)
	for _, x := range []struct {
		load uint8
		want int // packets
	}{{0, MaxWindow / testPacket}, {128, MaxWindow / testPacket}, {255, 129}, {192, 97}, {128, 98}, {0, 99}} {
		now += 1000
		w.heard(now, x.load, testPacket, network, 100)
		w.heard(now, x.load, testPacket, network, 100)
		if got := w.window / testPacket; got < x.want-1 || got > x.want {
			t.Errorf("load %d: window of %d packets, want %d", x.load, got, x.want)
		}
	}
	for range 20 {
		now += 1000
		w.heard(now, 255, testPacket, network, 100)
	}
	if w.window != testPacket {
		t.Errorf("the least window is %d", w.window)
	}
	for range 600 {
		now += 1000
		w.heard(now, 0, testPacket, network, 100)
	}
	if w.window != MaxWindow {
		t.Errorf("%d bytes after the load is long gone", w.window)
	}
}

// The minimum round trip is that of the last seconds.
func TestLeastIsForgotten(t *testing.T) {
	var l least
	at := clock.Time(time.Second)
	l.sample(at, 100, leastSpan)
	for i := range 40 {
		at = at.Add(leastSpan / 10)
		l.sample(at, 300, leastSpan)
		if early := i < 9; early && l.value() != 100 {
			t.Fatalf("forgotten after %v", at)
		}
	}
	if l.value() != 300 {
		t.Errorf("%v after 20 seconds", l.value())
	}
	l.sample(at, 200, leastSpan)
	if l.value() != 200 {
		t.Errorf("%v", l.value())
	}
}

// Every drain reduces the window, ends, and restores the window in steps.
func TestDrain(t *testing.T) {
	const base = 100 * time.Microsecond
	s := newState()
	s.window, s.threshold = 64*testPacket, 64*testPacket
	now, drains, steps, last := clock.Time(time.Second), 0, 0, MaxWindow
	for range 2000 {
		now = now.Add(base / 4)
		s.Sample(base+50*time.Microsecond, testPacket, now.Add(-base))
		s.Delivered(s.Window / 4)
		s.Conclude(&Delay{}, Path{Now: now, Smoothed: base})
		switch {
		case s.Window < last && last != MaxWindow:
			drains++
			if s.Window > s.window/drainShare {
				t.Errorf("a drain leaves %d of %d", s.Window, s.window)
			}
		case s.Window > last:
			if s.Window > last+last/4+1 {
				t.Errorf("the window comes back from %d to %d", last, s.Window)
			}
			steps++
		}
		last = s.Window
	}
	// 50 ms contain two intervals of 20 ms and the drains.
	if drains != 2 || steps < 2*drains {
		t.Errorf("%d drains, %d steps back", drains, steps)
	}
}

// A window of part of a packet stays positive when packets become larger. Larger packets enlarge the window in bytes only during
// slow start.
func TestResize(t *testing.T) {
	s := newState()
	s.window, s.threshold = testPacket/leastShare, testPacket
	if s.Resize(6*testPacket, 0); !s.Valid() || s.window > testPacket {
		t.Errorf("a window of %d bytes for packets of %d", s.window, s.packet)
	}
	s = newState()
	if s.Resize(16*testPacket, 0); s.window != 32*testPacket {
		t.Errorf("a first window of %d", s.window)
	}
}

// A minimum round trip is kept for as many round trips as there are between two drains.
func TestLeastLastsOnLongPaths(t *testing.T) {
	const round = 200 * time.Millisecond
	var p path
	at := clock.Time(time.Second)
	p.sample(at, round/2, round, true)
	for range leastRounds - 1 {
		at = at.Add(round)
		p.sample(at, round, round, true)
	}
	if p.follow(at, false); p.base != round/2 {
		t.Errorf("after %d round trips the path takes %v", leastRounds, p.base)
	}
}

// Full packets determine the round trip, because short ones are faster on slow links. A delay beyond the transmission time of a
// full packet is a queue.
func TestFullPacketsSayHowLongThePathIs(t *testing.T) {
	const leave = 12
	for _, x := range []struct {
		name              string
		short, full, want time.Duration
	}{
		{"no full one", 100, 0, 100},
		{"a slow link", 100, 110, 110},
		{"a queue at the start", 100, 500, 100 + leave},
		{"a fast link, whose time to leave is not known well", 200, 215, 215},
		{"a queue at the start of a long path", 1000, 1500, 1125},
		{"no short one", 0, 110, 110},
	} {
		var p path
		at := clock.Time(time.Second)
		p.left(2 * leave)
		p.left(leave)
		p.left(3 * leave)
		if x.short > 0 {
			p.sample(at, x.short, x.short, false)
		}
		if x.full > 0 {
			p.sample(at, x.full, x.full, true)
		}
		if p.follow(at, false); p.base != x.want {
			t.Errorf("%s: %v, want %v", x.name, p.base, x.want)
		}
		if p.follow(at, true); x.full > 0 && p.base != x.full {
			t.Errorf("%s: %v of long packets, want %v", x.name, p.base, x.full)
		}
		if p.follow(at.Add(2*leastSpan), true); x.short > 0 && p.base != x.short {
			t.Errorf("%s: %v long after the last full one, want %v", x.name, p.base, x.short)
		}
	}
}

// If losses continue at a third of the window, they have another cause. The window is restored, and further losses do not count for
// a while.
func TestVainCutsComeBack(t *testing.T) {
	const round = 100 * time.Microsecond
	s := newState()
	s.window, s.threshold = 100*testPacket, 100*testPacket
	s.path.restart(0, round)
	s.delay = delaySignal{filtered: round, target: 3 * round}
	now := clock.Time(time.Second)
	var left []int
	for range 5 {
		now = now.Add(round / 2)
		b := batch{Path: Path{Now: now, Smoothed: round}, round: round, lost: testPacket, delivered: 99 * testPacket}
		s.losses.react(s, &b)
		left = append(left, s.window/testPacket)
	}
	if left[2] > 35 || left[3] < 98 || left[4] < 97 {
		t.Errorf("%v packets are left of 100 after each loss", left)
	}
}

// At a full buffer other flows use the space that a reduced window leaves, until they lose packets too. The window is not restored
// before.
func TestCutsBesideOthersGoOn(t *testing.T) {
	const round, queue = 300 * time.Microsecond, 100 * time.Microsecond
	s := newState()
	s.window, s.threshold = 8*testPacket, 8*testPacket
	s.path.restart(0, round-queue)
	s.delay = delaySignal{filtered: round, target: 2 * round}
	s.losses.peak, s.losses.now = queue, queue
	begin := clock.Time(time.Second)
	for n := range 2 * vainRounds / 3 {
		now := begin.Add(time.Duration(3*n) * round)
		before := s.window
		b := batch{Path: Path{Now: now, Smoothed: round}, round: round, lost: testPacket, delivered: 16 * testPacket}
		s.losses.react(s, &b)
		if came := s.window > before; came != (now.Sub(begin) >= vainRounds*round) {
			t.Fatalf("%v after the first cut a window of %d packets becomes %d", now.Sub(begin), before/testPacket, s.window/testPacket)
		} else if came {
			return
		}
	}
	t.Error("the window did not come back")
}
