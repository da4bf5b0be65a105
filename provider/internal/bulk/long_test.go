package bulk

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// long is a Long with the time, for probes of longSize after longAfter bytes.
type long struct {
	Long
	t   *testing.T
	now clock.Time
}

const longSize, longAfter = 60000, 1000

// due fails the test unless a probe is due as wanted.
func (l *long) due(want bool) {
	l.t.Helper()
	if l.ProbeDue(longSize, longAfter, l.now) != want {
		l.t.Errorf("a probe is due: %v, after %+v", !want, l.Long)
	}
}

// prove sends a probe that is due, and answers it.
func (l *long) prove() {
	l.t.Helper()
	l.due(true)
	nonce, _ := l.Probe(longSize, l.now, 0, 9)
	if !l.Answered(nonce, longSize) || l.Proven() != longSize || l.Answered(nonce, longSize) {
		l.t.Fatalf("not proven: %+v", l.Long)
	}
	l.due(false)
}

// A connection probes for long packets after it has sent a number of bytes on the bulk path, which each failure doubles. Probes that are
// not answered are a failure.
func TestLongProbes(t *testing.T) {
	l := &long{t: t, now: clock.Time(time.Hour)}
	l.due(false)
	l.Left(longAfter - 1)
	l.due(false)
	l.Left(1)
	l.due(true)
	var nonce uint32
	for i := range maxProbes {
		var ok bool
		if nonce, ok = l.Probe(longSize, l.now, 0, uint32(7+i)); !ok || nonce != 7 {
			t.Fatalf("probe %d has nonce %d, %v", i, nonce, ok)
		}
		l.due(false)
		l.now = l.now.Add(minProbeTimer)
		l.due(true)
	}
	if l.Answered(nonce+1, longSize) || l.Answered(nonce, longSize-1) || l.Proven() != 0 {
		t.Error("an answer to no probe counts")
	}
	if _, ok := l.Probe(longSize, l.now, 0, 1); ok || l.Answered(nonce, longSize) {
		t.Error("a probe too many")
	}
	l.due(false)
	l.Left(2 * longAfter)
	l.prove()
}

// Several long packets lost in a row are a failure. Idling forgets the proof, but no failure.
func TestLongIsLost(t *testing.T) {
	l := &long{t: t, now: clock.Time(time.Hour)}
	l.Left(longAfter)
	l.prove()
	for range 3 * mostLongLosses { // each second one arrives
		if l.Lost() {
			t.Fatal("given up, although packets arrive")
		}
		l.Came()
	}
	for i := range mostLongLosses {
		if left := l.Lost(); left != (i == mostLongLosses-1) {
			t.Errorf("after loss %d it is given up: %v", i+1, left)
		}
	}
	if l.Proven() != 0 || l.Lost() {
		t.Error("it is given up twice")
	}
	l.Left(2*longAfter - 1)
	l.due(false)
	_, l.Long = RestOf(&Choice{}, &l.Long).Resume(l.now, false)
	l.Left(2*longAfter - 1)
	l.due(false)
	l.Left(1)
	l.prove()
	if l.Forget(); l.Long != (Long{failures: 1}) {
		t.Errorf("of a bulk path that was left there is %+v", l.Long)
	}
	for range 2 * mostFailures {
		l.fail()
	}
	if _, rested := RestOf(&Choice{}, &Long{proof: proof{tries: 1}, failures: 3}).Resume(l.now, false); rested != (Long{failures: 4}) {
		t.Errorf("of a probe without an answer idling keeps %+v", rested)
	}
	if _, rested := RestOf(&Choice{proof: proof{tries: maxProbes}}, &l.Long).Resume(l.now, false); rested.failures != mostFailures {
		t.Errorf("after many failures idling keeps %d", rested.failures)
	}
}

// A long packet has more than two segments and at least leastLong bytes, and is no longer than the windows allow.
func TestLongRoom(t *testing.T) {
	for _, c := range []struct{ segment, size, room, want int }{
		{1472, 64512, 1 << 20, 64512},
		{1472, 64512, 20000, 20000},
		{1472, 64512, leastLong, leastLong},
		{1472, 64512, leastLong - 1, 0},
		{1472, 64512, -5, 0},
		{8972, 64512, 2 * 8972, 0},
		{8972, 64512, 2*8972 + 1, 2*8972 + 1},
		{65000, 64512, 1 << 20, 0},
		{1472, 0, 1 << 20, 0},
	} {
		if got := LongRoom(c.segment, c.size, c.room); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
