package bulk

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// run sends for so long by a trial's choice, where each way moves so many bytes a microsecond. It returns how long bulk left by the lane.
func run(t *trial, now *clock.Time, d time.Duration, port, lane int) (byLane time.Duration) {
	const step = 100 * time.Microsecond
	for end := now.Add(d); *now < end; *now = now.Add(step) {
		speed := port
		if t.lane(0, *now, 0) {
			speed, byLane = lane, byLane+step
		}
		t.arrived(speed*100, 0, now.Add(step))
	}
	return byLane
}

// Bulk takes the faster way after one comparison, and the ND port where the lane is not clearly faster (PROTOCOL §11.1).
func TestTrialFindsTheFasterWay(t *testing.T) {
	for _, c := range []struct {
		port, lane int
		want       Verdict
	}{{100, 200, Lane}, {100, 113, Lane}, {100, 112, Port}, {100, 100, Port}, {200, 100, Port}} {
		now := clock.Time(time.Hour)
		var x trial
		run(&x, &now, phases*minPhase*5/4+time.Millisecond, c.port, c.lane)
		if x.verdict() != c.want {
			t.Errorf("%d and %d bytes: verdict %d, want %d", c.port, c.lane, x.verdict(), c.want)
		}
		if d := run(&x, &now, firstKeep/2, c.port, c.lane); (d > 0) != (c.want == Lane) {
			t.Errorf("%d and %d bytes: by the lane for %v", c.port, c.lane, d)
		}
	}
}

// A verdict is looked at again, ever less often while it stays, and changes with what is measured. A way that is nearly as fast as the other one is kept.
func TestTrialIsRepeated(t *testing.T) {
	now := clock.Time(time.Hour)
	var x trial
	run(&x, &now, 100*time.Second, 100, 200)
	if x.verdict() != Lane || x.keep[0] != mostKeep {
		t.Fatalf("verdict %d, kept for %v", x.verdict(), x.keep[0])
	}
	run(&x, &now, mostKeep+time.Second, 100, 95)
	if x.verdict() != Lane {
		t.Error("a way that is as fast is left")
	}
	run(&x, &now, mostKeep+time.Second, 100, 50)
	if x.verdict() != Port {
		t.Error("a way that has become slower is kept")
	}
	if d := run(&x, &now, 10*time.Second, 100, 50); d > 200*time.Millisecond {
		t.Errorf("the slower way was tried for %v of 10 s", d)
	}
}

// What another connection found holds without a comparison at first.
func TestTrialBeginsWithWhatIsKnown(t *testing.T) {
	for _, v := range []Verdict{Port, Lane} {
		now := clock.Time(time.Hour)
		x := trial{verdicts: All(v)}
		if d := run(&x, &now, firstKeep, 100, 100); (d == firstKeep) != (v == Lane) || (d == 0) != (v == Port) {
			t.Errorf("verdict %d: by the lane for %v", v, d)
		}
		if run(&x, &now, time.Second, 200, 100); x.verdict() != Port {
			t.Errorf("verdict %d does not follow what is measured", v)
		}
	}
}

// Time in which nothing was in flight says nothing of a way.
func TestTrialCountsTimeInFlight(t *testing.T) {
	now := clock.Time(time.Hour)
	var x trial
	x.lane(0, now, 0)
	now = x.from
	x.arrived(1, 0, now)
	now = now.Add(time.Second)
	x.alone(now)
	if x.arrived(1, 0, now.Add(minPhase/2)); x.phase != 1 || x.counted != minPhase/2 {
		t.Errorf("phase %d, %v counted", x.phase, x.counted)
	}
}

// An interruption in one phase and a burst of late acknowledgements in another change no verdict.
func TestTrialIsNotMisled(t *testing.T) {
	const step = 100 * time.Microsecond
	now, burst := clock.Time(time.Hour), false
	var x trial
	for x.verdict() == Unknown {
		speed := 100
		if x.lane(0, now, 0) {
			speed = 200
		}
		switch {
		case x.phase == 2: // the lane's first
			now = now.Add(10 * time.Millisecond)
		case x.phase == 3 && x.counted > 0 && !burst:
			speed, burst = 100_000, true
		}
		now = now.Add(step)
		x.arrived(speed*100, 0, now)
	}
	if x.verdict() != Lane {
		t.Error("misled")
	}
}

// Phases last as many round trips on long paths, and a comparison ends with the lane.
func TestTrialOnLongPaths(t *testing.T) {
	now := clock.Time(time.Hour)
	var x trial
	x.lane(0, now, 10*time.Millisecond)
	if x.arrived(1, 0, now.Add(99*time.Millisecond)); x.phase != 1 {
		t.Error("a phase is over before its time")
	}
	if x.arrived(1, 0, now.Add(100*time.Millisecond)); x.phase != 2 || !x.lane(0, now, 0) {
		t.Error("a phase lasts longer than its time")
	}
	if x.stop(); x.lane(0, now, 0) || x.phase != 1 {
		t.Error("the comparison does not begin anew")
	}
}

// TestComparisonEndsWithTheLane: a lane that was left in the middle of a comparison is compared from the beginning once it is proven again.
func TestComparisonEndsWithTheLane(t *testing.T) {
	now := clock.Time(time.Hour)
	c := proven(now)
	full := Packet{Size: 1400, Full: true}
	for !c.Takes(full, now, 0) {
		now = now.Add(time.Millisecond)
		c.Moved(1000, 0, now)
	}
	c.leave(now, Lossy)
	now = now.Add(2 * firstPause)
	nonce, _ := c.Probe(1472, now, 0, 1)
	c.Answered(nonce, 1472)
	for range rowBytes/full.Size + 1 {
		if c.Takes(full, now, 0) {
			t.Fatal("the lane is taken before the ND port was measured")
		}
	}
	if c.trial.phase != 1 {
		t.Errorf("phase %d", c.trial.phase)
	}
}

// The verdict for messages of one length says nothing of those that are eight times as long, and is still known when the first come again.
func TestVerdictsByLength(t *testing.T) {
	const step = 100 * time.Microsecond
	now := clock.Time(time.Hour)
	x := trial{verdicts: Verdicts{Unknown, Unknown, Lane}}
	// send sends messages of a length by a trial's choice, where the lane moves so many bytes a microsecond and the ND port 100.
	send := func(length, lane int, d time.Duration) (byLane time.Duration) {
		for end := now.Add(d); now < end; {
			speed := 100
			if x.lane(length, now, 0) {
				speed, byLane = lane, byLane+step
			}
			now = now.Add(step)
			x.arrived(speed*100, 0, now)
		}
		return byLane
	}
	const comparison = phases*minPhase*5/4 + 2*time.Millisecond
	for range 2 {
		send(middle-1, 50, comparison)
		send(middle, 300, comparison)
		if x.verdicts != (Verdicts{Port, Lane, Lane}) {
			t.Fatalf("verdicts %v", x.verdicts)
		}
	}
	if d := send(long, 300, 100*time.Millisecond); d != 100*time.Millisecond {
		t.Errorf("long messages went by the lane for %v of 100 ms, as known before", d)
	}
	if d := send(middle-1, 50, 100*time.Millisecond); d > 2*recent*step {
		t.Errorf("short messages went by the lane for %v of 100 ms", d)
	}
}

// Short messages between long ones go with these, and the class does not change back and forth.
func TestLengthsOfLate(t *testing.T) {
	var l lengths
	for i := range 10 * recent {
		length := 100
		if i%(recent/2) == 0 {
			length = long
		}
		if class := l.sees(length); class != 2 {
			t.Fatalf("message %d: class %d", i, class)
		}
	}
	for i := range 3 * recent {
		if class := l.sees(middle); i > 2*recent && class != 1 {
			t.Fatalf("message %d of middle length: class %d", i, class)
		}
	}
	if l.sees(long-1) != 1 || l.sees(long) != 2 {
		t.Error("a longer message does not count at once")
	}
}

// A verdict is told for the class that was compared, and no other is written over.
func TestVerdictIsToldForItsClass(t *testing.T) {
	known := Verdicts{Lane, Lane, Lane}
	var c Choice
	c.trial.verdicts, c.trial.judged = Verdicts{Unknown, Port, Unknown}, 1
	if v := c.Tell(&known); v != Port || known != (Verdicts{Lane, Port, Lane}) {
		t.Errorf("told %v, known %v", v, known)
	}
}

// What this end receives counts, from when a phase counts on: where both ways move as much of its own, the one that leaves more of the processor to what comes is faster.
func TestTrialCountsWhatComes(t *testing.T) {
	const step = 100 * time.Microsecond
	for _, c := range []struct {
		port, lane int // received in a step
		want       Verdict
	}{{100, 200, Lane}, {100, 100, Port}, {200, 100, Port}} {
		now, received := clock.Time(time.Hour), 1<<40
		var x trial
		for x.verdict() == Unknown {
			comes := c.port
			if x.lane(0, now, 0) {
				comes = c.lane
			}
			if now < x.from {
				comes = 1 << 30 // of the way before
			}
			now = now.Add(step)
			received += comes
			x.arrived(100, received, now)
		}
		if x.verdict() != c.want {
			t.Errorf("%d and %d bytes received: %v", c.port, c.lane, x.verdict())
		}
	}
}
