package congestion

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
)

// absentee is a connection whose peer is sometimes silent: a window of 64 packets on a path with the round trip testBase.
type absentee struct {
	*State
	now clock.Time
}

const testBase = 100 * time.Microsecond

func newAbsentee() *absentee {
	s := newState()
	s.window, s.threshold = 64*testPacket, 64*testPacket
	a := &absentee{State: s, now: s.limitedAt}
	a.drain.next = clock.Never
	a.Began(a.now)
	a.rounds(8)
	return a
}

// trip delivers an acknowledgement after d, for a packet that left a round trip before.
func (a *absentee) trip(d, round time.Duration) {
	a.now = a.now.Add(d)
	a.Delivered(testPacket)
	a.Sample(round, testPacket, a.now.Add(-round))
	a.Conclude(&Delay{}, Path{Now: a.now, Smoothed: testBase})
}

// rounds lets n round trips of ordinary length pass.
func (a *absentee) rounds(n int) {
	for range n {
		a.trip(testBase, testBase)
	}
}

// silent makes the peer silent for d beyond a round trip. It uses the whole allowance meanwhile, and returns its size.
func (a *absentee) silent(d time.Duration) (granted int) {
	back := a.now.Add(testBase + d)
	for at := a.GrantAt(a.now); at != 0 && at < back; at = a.GrantAt(at) {
		a.Grant(at)
	}
	granted = a.allowance.bytes
	a.now = back.Add(-testBase - d)
	a.trip(testBase+d, testBase+d)
	for range 80 { // the packets that waited are acknowledged
		a.trip(time.Microsecond, testBase+d)
	}
	return granted
}

// A sender sends on during a silence only if it has seen similar silences: at three quarters of its rate, for 5/4 of their
// duration, until a packet arrives.
func TestGrants(t *testing.T) {
	const ms = time.Millisecond
	rate := func(s *State, d time.Duration) int {
		return int(int64(s.Window) * int64(d) / int64(max(testBase, s.delay.target)) * 3 / 4)
	}
	a := newAbsentee()
	a.allowance.most = MaxWindow
	for i := range 2 {
		if n := a.silent(2 * ms); n != 0 {
			t.Errorf("%d bytes are granted after %d silences", n, i)
		}
		a.rounds(2)
	}
	window := a.window
	if n, want := a.silent(2*ms), rate(a.State, 2*ms); n < want*9/10 || n > want*101/100 {
		t.Errorf("%d bytes in a silence of 2 ms, want %d", n, want)
	}
	if a.allowance.bytes != 0 || a.Full(a.Window-testPacket, a.now) || !a.Full(a.Window, a.now) {
		t.Errorf("%d bytes are left when something came back", a.allowance.bytes)
	}
	a.rounds(2)
	if n, most := a.silent(20*ms), rate(a.State, 5*ms/2); n < most*9/10 || n > most*101/100 {
		t.Errorf("%d bytes in a silence of 20 ms, want those of 2.5", n)
	}
	if a.window < window-testPacket {
		t.Errorf("the window was %d and is %d: it took silence for a queue", window, a.window)
	}
	a.rounds(2)
	if at, due := a.GrantAt(a.now), a.now.Add(testBase+grantTime); at != due {
		t.Errorf("the first grant is due %v after something came back, want %v", at.Sub(a.now), testBase+grantTime)
	}
	a.Grant(a.now)
	if a.allowance.bytes != 0 {
		t.Error("a grant before its time")
	}
	a.Grant(a.GrantAt(a.now))
	if n := a.allowance.bytes; n == 0 || a.Full(a.Window, a.now) || !a.Full(a.Window+n, a.now) {
		t.Errorf("%d bytes do not count beyond the window", n)
	}
	a.TimedOut(&Delay{}, testBase)
	if at := a.GrantAt(a.now); at != 0 || a.allowance.bytes != 0 {
		t.Error("grants go on after a time-out")
	}
}

// The allowance follows the memory of the peer: it doubles each time it was used up, halves after a loss, and then grows slowly.
// Together with the window it is never more than a receive ring holds.
func TestGrantsFollowThePeersMemory(t *testing.T) {
	a := newAbsentee()
	for range 2 {
		a.silent(8 * time.Millisecond)
		a.rounds(2)
	}
	for want := firstMost; want <= 4*firstMost; want *= 2 {
		if n := a.silent(8 * time.Millisecond); n != want {
			t.Errorf("%d bytes are granted, want %d", n, want)
		}
		a.rounds(2)
	}
	left := a.now.Add(testBase)
	n := a.silent(8 * time.Millisecond)
	a.Lost(testPacket, left)
	a.rounds(1)
	if got := a.allowance.most; got != n/2 {
		t.Errorf("%d bytes at the most after a loss among %d", got, n)
	}
	a.Lost(testPacket, left)
	a.rounds(2)
	if got := a.silent(8 * time.Millisecond); got != n/2 {
		t.Errorf("%d bytes are granted after a loss among %d", got, n)
	}
	a.rounds(2)
	if got, want := a.silent(8*time.Millisecond), n/2+n/2/slowly; got != want {
		t.Errorf("%d bytes are granted one time later, want %d", got, want)
	}
	a.rounds(2)
	a.allowance.most, a.window, a.threshold = MaxWindow, 128*testPacket, 128*testPacket
	a.apply(testBase)
	window := a.Window
	if got := a.silent(8 * time.Millisecond); got+window != lastMost {
		t.Errorf("%d bytes are granted beyond a window of %d", got, window)
	}
}

// Losses in many silences reduce the allowance to one packet at the least, and it can grow again.
func TestGrantsOutlastLosses(t *testing.T) {
	a := newAbsentee()
	for range 40 {
		left := a.now.Add(testBase)
		a.silent(8 * time.Millisecond)
		a.Lost(testPacket, left)
		a.rounds(2)
	}
	if got := a.allowance.most; got != testPacket {
		t.Errorf("%d bytes at the most, want a packet", got)
	}
	for range 4 {
		a.window, a.threshold = 64*testPacket, 64*testPacket
		a.apply(testBase)
		a.silent(8 * time.Millisecond)
		a.rounds(2)
	}
	if got := a.allowance.most; got <= testPacket {
		t.Errorf("%d bytes at the most after silences without loss", got)
	}
}

// Silences that are queueing delay, silences with windows of few packets, and a single silence do not start an allowance.
func TestSilencesThatAreNoAbsence(t *testing.T) {
	for _, c := range []struct {
		name    string
		packets int
		length  time.Duration
		after   time.Duration // the next round trip
		times   int
		known   bool
	}{
		{"two absences", 64, time.Millisecond, testBase, 2, true},
		{"one alone", 64, time.Millisecond, testBase, 1, false},
		{"a queue that is still there", 64, time.Millisecond, 20 * testBase, 4, false},
		{"few packets", 1, time.Millisecond, testBase, 4, false},
		{"short ones", 64, absent - time.Microsecond, testBase, 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAbsentee()
			for range c.times {
				a.window = c.packets * testPacket
				a.apply(testBase)
				a.silent(c.length)
				for range 2 * c.after / testBase {
					a.trip(testBase, c.after)
				}
				a.rounds(2)
			}
			if known := a.allowance.absence.Now(a.now) > 0; known != c.known {
				t.Errorf("an absence is known: %v", known)
			}
		})
	}
}

// If ACK blocks report how long the peer held packets, one silence that they explain is enough for an allowance. The round trip at
// the end of that silence counts as well. A peer that waits for an answer is not absent.
func TestGrantsAfterWhatTheEndsSay(t *testing.T) {
	const gone = 4 * away
	a := newAbsentee()
	silent := func(held time.Duration) {
		a.HeldAtEnds(held)
		a.trip(testBase+gone, testBase)
		a.rounds(2)
	}
	if silent(gone / 4); a.absence() != 0 {
		t.Errorf("an absence of %v is known after a silence that the ends explain a quarter of", a.absence())
	}
	a = newAbsentee()
	a.HeldAtEnds(turn.AnswerTime)
	a.trip(testBase+turn.AnswerTime, testBase)
	a.rounds(2)
	if a.absence() != 0 {
		t.Errorf("an absence of %v is known after an acknowledgement that waited for an answer", a.absence())
	}
	a = newAbsentee()
	sampled := a.path.all.now
	a.path.all.now = 0
	if silent(gone * 3 / 4); a.absence() < gone || a.path.all.now != sampled {
		t.Errorf("an absence of %v is known after one of %v, and a least round trip of %v after %v", a.absence(), gone, a.path.all.now, sampled)
	}
}

// absence returns the absence of the peer that the sender expects now.
func (a *absentee) absence() time.Duration { return a.allowance.absence.Now(a.now) }

// While peers hold packets for milliseconds, a round trip lasts as long. The window shrinks once for each measured round trip, and
// drains stay as rare as usual.
func TestHeldPacketsMakeRoundsLonger(t *testing.T) {
	const held = 4 * time.Millisecond
	a := newAbsentee()
	long := 4 * a.delay.target
	for range 40 {
		a.HeldAtEnds(held)
		a.trip(held, long)
	}
	if a.held < held*9/10 || a.round > long {
		t.Errorf("packets are held for %v, and a round trip takes %v", a.held, a.round)
	}
	a.window = 64 * testPacket
	a.HeldAtEnds(held)
	a.trip(2*held, long)
	after := a.window
	for range 10 { // no new measurement
		a.now = a.now.Add(2 * held)
		a.HeldAtEnds(held)
		a.Delivered(testPacket)
		a.Held(a.now)
		a.Conclude(&Delay{}, Path{Now: a.now, Smoothed: testBase})
	}
	if after >= 64*testPacket || a.window != after {
		t.Errorf("a window of %d bytes became %d with one long round trip, and %d without more", 64*testPacket, after, a.window)
	}
	for range 10 {
		a.HeldAtEnds(held)
		a.trip(held, testBase)
	}
	a.drain = drain{}
	a.HeldAtEnds(held)
	a.trip(held, testBase)
	if gap := a.drain.next.Sub(a.now); gap < drainRounds*held*9/10 {
		t.Errorf("the first drain comes after %v, which is less than %d round trips of %v", gap, drainRounds, held)
	}
}

// Once packets are not held any more, the mean hold time falls, also if a peer reports a hold time of zero.
func TestHeldIsForgotten(t *testing.T) {
	const held = 4 * time.Millisecond
	a := newAbsentee()
	for range 40 {
		a.HeldAtEnds(held)
		a.trip(held, testBase)
	}
	for range 10000 {
		a.HeldAtEnds(0) // acknowledged in the poll that received it
		a.trip(testBase, testBase)
	}
	if a.held > absent {
		t.Errorf("packets count as held for %v, a second after the last one that was", a.held)
	}
}
