package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/link"
)

// TestBusyDevice: the device accepts no packets for a while. An engine that otherwise sleeps kicks the device every 20 us until the
// packets leave. If the device stays busy, the engine kicks it less often until it makes progress.
func TestBusyDevice(t *testing.T) {
	p := newPair(t, 1400).connect()
	l, e := p.link[0], p.eng[0]
	l.busy = true
	p.fill(0, 0, 100, 7)
	p.post(0, p.write(0, 0, 100))
	for e.Run(p.now) { // until the engine wants to sleep
		p.now += 1000
	}
	wantDue := func(want time.Duration) {
		t.Helper()
		if got := e.NextDeadline().Sub(p.now); got > want || got <= 0 {
			t.Fatalf("wants to run again in %v, want within %v", got, want)
		}
	}
	wantDue(link.PushInterval)
	for range 2 {
		before := l.pushes
		p.now = e.NextDeadline() - 1
		e.Run(p.now)
		if l.pushes != before {
			t.Fatal("pushed before it is due")
		}
		p.now++
		e.Run(p.now)
		if l.pushes != before+1 {
			t.Fatalf("%d pushes when it was due, want 1", l.pushes-before)
		}
		wantDue(link.PushInterval)
	}
	l.busy = false
	sent := e.Stats().PacketsOut
	p.now = e.NextDeadline()
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	if !p.all(1, 0, 100, 7) || e.Stats().PacketsOut-sent > 1 {
		t.Errorf("%d packets were sent to make up for the one that waited", e.Stats().PacketsOut-sent)
	}
}

// TestStuckDevice: a device that never sends is polled once a millisecond, not every 20 us, until it sends.
func TestStuckDevice(t *testing.T) {
	p := newPair(t, 1400).connect()
	l, e := p.link[0], p.eng[0]
	l.busy = true
	p.post(0, p.write(0, 0, 100))
	run := func(d time.Duration) (pushes int) {
		before, end := l.pushes, p.now.Add(d)
		for p.now < end {
			for e.Run(p.now) {
				p.now += clock.Time(time.Microsecond)
			}
			p.now = min(e.NextDeadline(), end)
		}
		return l.pushes - before
	}
	first := run(2 * time.Millisecond)
	if first < link.MaxVainPushes || first > link.MaxVainPushes+5 {
		t.Errorf("%d pushes in the first two milliseconds", first)
	}
	if n := run(10 * time.Millisecond); n < 9 || n > 11 {
		t.Errorf("%d pushes in ten milliseconds of a stuck device", n)
	}
	l.busy = false
	p.pass(5 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	l.busy = true
	p.post(0, p.write(0, 0, 100))
	if n := run(time.Millisecond / 2); n < 20 {
		t.Errorf("%d pushes in half a millisecond after it moved again", n)
	}
}
