package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// TestBusyDevice has a device take nothing for a while: what waits there is pushed every 20 us without any other cause, by an engine
// that sleeps in between, and leaves then. A device that stays busy is asked less often, until it moves.
func TestBusyDevice(t *testing.T) {
	p := newPair(t, 1400).connect()
	link, e := p.link[0], p.eng[0]
	link.busy = true
	p.fill(0, 0, 100, 7)
	p.post(0, p.write(0, 0, 100))
	for e.Run(p.now) { // until it wants to sleep
		p.now += 1000
	}
	wantDue := func(want time.Duration) {
		t.Helper()
		if got := e.NextDeadline().Sub(p.now); got > want || got <= 0 {
			t.Fatalf("wants to run again in %v, want within %v", got, want)
		}
	}
	wantDue(pushInterval)
	for range 2 {
		before := link.pushes
		p.now = e.NextDeadline() - 1
		e.Run(p.now)
		if link.pushes != before {
			t.Fatal("pushed before it is due")
		}
		p.now++
		e.Run(p.now)
		if link.pushes != before+1 {
			t.Fatalf("%d pushes when it was due, want 1", link.pushes-before)
		}
		wantDue(pushInterval)
	}
	link.busy = false
	sent := e.Stats().PacketsOut
	p.now = e.NextDeadline()
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	if !p.all(1, 0, 100, 7) || e.Stats().PacketsOut-sent > 1 {
		t.Errorf("%d packets were sent to make up for the one that waited", e.Stats().PacketsOut-sent)
	}
}

// TestStuckDevice: one that never sends costs one look in a millisecond, not one in 20 us, until it sends.
func TestStuckDevice(t *testing.T) {
	p := newPair(t, 1400).connect()
	link, e := p.link[0], p.eng[0]
	link.busy = true
	p.post(0, p.write(0, 0, 100))
	run := func(d time.Duration) (pushes int) {
		before, end := link.pushes, p.now.Add(d)
		for p.now < end {
			for e.Run(p.now) {
				p.now += clock.Time(time.Microsecond)
			}
			p.now = min(e.NextDeadline(), end)
		}
		return link.pushes - before
	}
	first := run(2 * time.Millisecond)
	if first < maxVainPushes || first > maxVainPushes+5 {
		t.Errorf("%d pushes in the first two milliseconds", first)
	}
	if n := run(10 * time.Millisecond); n < 9 || n > 11 {
		t.Errorf("%d pushes in ten milliseconds of a stuck device", n)
	}
	link.busy = false
	p.pass(5 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	link.busy = true
	p.post(0, p.write(0, 0, 100))
	if n := run(time.Millisecond / 2); n < 20 {
		t.Errorf("%d pushes in half a millisecond after it moved again", n)
	}
}

// device is one that takes some of what waits at each push.
type device struct{ waits, takes, pushes int }

func (d *device) Backlog() int { return d.waits }

func (d *device) Push() {
	d.pushes++
	d.waits -= min(d.takes, d.waits)
}

// A device is asked again soon while it moves, and seldom once it has not for a while; it counts as moving again with the first packet.
func TestBacklogIsPushedInTime(t *testing.T) {
	d := &device{waits: 10, takes: 1}
	b := backlog{device: d}
	now := clock.Time(time.Hour)
	b.note(0, now)
	step := func(want time.Duration) {
		t.Helper()
		now = b.due
		b.push(now)
		if got := b.due.Sub(now); got != want {
			t.Fatalf("%d pushes, %d left: due in %v, want %v", d.pushes, b.left, got, want)
		}
	}
	step(pushInterval)
	d.takes = 0
	for range maxVainPushes - 1 {
		step(pushInterval)
	}
	step(stuckInterval)
	b.note(0, now) // a packet was added, and tells nothing
	step(stuckInterval)
	d.takes = 1
	step(pushInterval)
	d.takes = 10
	b.push(now)
	if b.left != 0 || b.vain != 0 {
		t.Errorf("%d left, %d pushes in vain", b.left, b.vain)
	}
	none := backlog{}
	none.note(0, now)
	if none.left != 0 {
		t.Error("a link without a backlog has one")
	}
}
