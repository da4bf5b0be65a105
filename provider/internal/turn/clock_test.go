package turn

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const us = time.Microsecond

// step is one poll: how long after the poll before it begins, whether a goroutine waited for packets meanwhile, whether it receives
// packets, and whether it sends some.
type step struct {
	after       time.Duration
	watched     bool
	look, sends bool
}

// run passes the steps to c from now on, and returns when the last poll began.
func run(c *Clock, now clock.Time, steps ...step) clock.Time {
	for _, s := range steps {
		last := now
		now = now.Add(s.after)
		c.Watch(s.watched)
		c.Begin(last, now)
		if s.look {
			c.Look(now)
		}
		if s.sends {
			c.Send()
		}
	}
	return now
}

func TestWhoseTimeItWas(t *testing.T) {
	const start = clock.Time(time.Hour)
	look := step{after: us, watched: true, look: true}
	sends := step{after: us, watched: true, look: true, sends: true}
	for _, test := range []struct {
		name  string
		steps []step
		away  bool
		trip  time.Duration
		least time.Duration
		part  time.Duration // of the round trip, spent in the network; 0: no sample
	}{
		{"somebody waited", []step{look, {after: 100 * us, watched: true}}, false, 300 * us, 0, 300 * us},
		{"nobody waited", []step{look, {after: 100 * us}}, false, 300 * us, 0, 200 * us},
		{"a turn that sent", []step{sends, {after: 100 * us, watched: true}}, false, 300 * us, 0, 200 * us},
		{"not less than the least", []step{look, {after: 100 * us}}, false, 110 * us, 50 * us, 50 * us},
		{"unless it was shorter", []step{look, {after: 100 * us}}, false, 40 * us, 50 * us, 40 * us},
		{"turns that do not look", []step{look, {after: 50 * us}, {after: 60 * us}}, false, 300 * us, 0, 190 * us},
		{"off its core", []step{look, {after: awayGap + us}}, true, awayGap + 2*us, 0, 0},
		{"off its core since before the trip began", []step{look, {after: awayGap + us}}, true, awayGap, 50 * us, 50 * us},
		{"off its core after it sent", []step{sends, {after: awayGap + us, watched: true}}, true, time.Millisecond, 0, 0},
		{"long asleep and woken", []step{look, {after: time.Second, watched: true}}, false, 300 * us, 0, 300 * us},
		{"back for a while", []step{look, {after: awayGap + us}, {after: 100 * us, watched: true}}, false, 99 * us, 0, 99 * us},
		{"away within the trip", []step{look, {after: awayGap + us}, {after: 100 * us, watched: true}}, false, 400 * us, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c Clock
			now := run(&c, start, test.steps...)
			if c.away != test.away {
				t.Errorf("away %v, want %v", c.away, test.away)
			}
			part, ok := c.Network(Trip{Left: now.Add(-test.trip), Came: now}, test.least, now)
			if part != test.part || ok != (test.part > 0) {
				t.Errorf("of %v the network took %v (%v), want %v", test.trip, part, ok, test.part)
			}
		})
	}
}

// The arrival time of an acknowledgement is often known. Then only the send time, and the time of polls that sent packets, are
// uncertain.
func TestTripsThatAreKnown(t *testing.T) {
	const start, held = clock.Time(time.Hour), us / 2 // held by the peer
	look := step{after: us, watched: true, look: true}
	sends := step{after: us, watched: true, look: true, sends: true}
	idle := step{after: us, watched: true, look: true}
	for _, test := range []struct {
		name   string
		steps  []step
		left   time.Duration // before the last poll began
		waited time.Duration
		part   time.Duration // of the round trip, spent in the network and at the peer; 0: no sample
	}{
		{"somebody waited", []step{look, {after: 300 * us, watched: true}}, 300 * us, 100 * us, 200 * us},
		{"nobody waited", []step{look, {after: 300 * us}}, 301 * us, 100 * us, 201 * us},
		{"off its core", []step{sends, idle, {after: 10 * awayGap}}, 10*awayGap + us, 9 * awayGap, awayGap + us},
		{"off its core, perhaps before it left", []step{sends, {after: 10 * awayGap}}, 10 * awayGap, 9 * awayGap, 0},
		{"off its core after it left", []step{sends, sends, {after: 10 * awayGap}}, 10*awayGap + us, 10 * awayGap, us},
		{"a turn that sent", []step{sends, {after: 100 * us, watched: true}}, 150 * us, 30 * us, 50 * us},
		{"a turn that sent, and took less than it waited", []step{sends, {after: 30 * us, watched: true}}, 150 * us, 50 * us, 100 * us},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c Clock
			now := run(&c, start, test.steps...)
			part, ok := c.Network(Trip{Left: now.Add(-test.left), Held: held, Came: now.Add(-test.waited), Known: true}, 0, now)
			if want := max(test.part-held, 0); part != want || ok != (want > 0) {
				t.Errorf("the network took %v (%v), want %v", part, ok, want)
			}
		})
	}
}

// A poll that sent packets still counts after a poll that did not.
func TestSentIsOfThisTurn(t *testing.T) {
	var c Clock
	now := run(&c, 0, step{after: us, watched: true, sends: true})
	if !c.Sent() {
		t.Error("the poll sent packets and does not report it")
	}
	run(&c, now, step{after: us, watched: true})
	if c.Sent() {
		t.Error("the next poll reports that it sent packets")
	}
}

// Long polls are no absence: the limit grows with the duration of polls.
func TestLongTurnsAreNoAbsence(t *testing.T) {
	var c Clock
	now := clock.Time(time.Hour)
	for range 100 {
		now = run(&c, now, step{after: 150 * us, watched: true, look: true, sends: true})
	}
	now = run(&c, now, step{after: 450 * us, watched: true, look: true, sends: true})
	if c.away {
		t.Error("a turn of 450 us counts as an absence where turns take 150 us")
	}
	run(&c, now, step{after: 2 * time.Millisecond, watched: true})
	if !c.away {
		t.Error("2 ms are no absence where turns take 150 us")
	}
}

// The time of polls is subtracted in proportion to how busy the engine was.
func TestOwnPart(t *testing.T) {
	const cost, span = 100 * us, 2 * shareSpan
	var c Clock
	now := clock.Time(time.Hour)
	for _, test := range []struct {
		name        string
		turns, idle time.Duration
		want        time.Duration
	}{
		{"busy", span, 0, 2 * cost},
		{"half busy", span / 2, span / 2, cost},
		{"waiting", 0, span, 0},
		{"busy again", span, 0, 2 * cost},
		{"idle for long", 0, 2 * maxShareSpan, 2 * cost}, // too old to say anything about the present
	} {
		c.cost, c.working, c.shareFrom = cost, 0, now
		for range test.turns / cost {
			c.Look(now)
			c.Send()
			now = run(&c, now, step{after: cost, watched: true})
		}
		now = run(&c, now, step{after: test.idle, watched: true})
		if got := c.OwnPart(); got < test.want*9/10 || got > test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// On a short path, a packet that waited while a poll sent for long is no sample, nor is one that waited while the engine's owner
// was descheduled.
func TestBlurs(t *testing.T) {
	sends := step{after: us, watched: true, look: true, sends: true}
	for _, test := range []struct {
		name  string
		steps []step
		least time.Duration
		want  bool
	}{
		{"a turn that sent for long", []step{sends, {after: leastBlur + us, watched: true}}, 0, true},
		{"a turn that sent for a moment", []step{sends, {after: leastBlur, watched: true}}, 0, false},
		{"a long path", []step{sends, {after: 100 * us, watched: true}}, 200 * us, false},
		{"a path that is not so long", []step{sends, {after: 100 * us, watched: true}}, 199 * us, true},
		{"somebody waited", []step{{after: us, watched: true, look: true}, {after: 100 * us, watched: true}}, 0, false},
		{"off its core", []step{sends, {after: 10 * awayGap, watched: true}}, time.Second, true},
	} {
		var c Clock
		run(&c, clock.Time(time.Hour), test.steps...)
		if got := c.Blurs(test.least); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
