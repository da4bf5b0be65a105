package xdp

import "testing"

// TestFillLevelRisesBeforeTheRingIsEmpty: a ring found below a quarter gets twice the frames, up to all its slots.
func TestFillLevelRisesBeforeTheRingIsEmpty(t *testing.T) {
	l := newFillLevel(8192)
	if got := l.missing(0); got != minFillLevel {
		t.Fatalf("first fill of %d frames, want %d", got, minFillLevel)
	}
	if got := l.missing(minFillLevel / 2); got != minFillLevel/2 {
		t.Fatalf("half full: %d frames missing, want %d", got, minFillLevel/2)
	}
	for want := uint32(2 * minFillLevel); want <= 8192; want *= 2 {
		if got := l.missing(10); got != want-10 {
			t.Fatalf("nearly empty: %d frames missing, want %d", got, want-10)
		}
	}
	if got := l.missing(0); got != 8192 {
		t.Fatalf("full level: %d frames missing, want all 8192", got)
	}
}

// TestFillLevelSinksWhenItWasNotNeeded: a level that was hardly touched for a long time halves, but not below the least.
func TestFillLevelSinksWhenItWasNotNeeded(t *testing.T) {
	l := newFillLevel(4096)
	l.missing(0)
	l.missing(0)
	if l.now != 2*minFillLevel {
		t.Fatalf("level %d, want %d", l.now, 2*minFillLevel)
	}
	for range 100 * fillLevelPeriod {
		l.missing(l.now - 100)
	}
	if l.now != minFillLevel {
		t.Fatalf("level %d after a quiet time, want %d", l.now, minFillLevel)
	}
}

// TestFillLevelSavesPublishes: a few missing frames wait for more, in a ring that has many.
func TestFillLevelSavesPublishes(t *testing.T) {
	l := newFillLevel(8192)
	l.missing(0)
	if got := l.missing(minFillLevel - refillBatch + 1); got != 0 {
		t.Errorf("%d frames for a nearly full ring, want none", got)
	}
	if got := l.missing(minFillLevel - refillBatch); got != refillBatch {
		t.Errorf("%d frames, want %d", got, refillBatch)
	}
	small := newFillLevel(64)
	small.missing(0)
	if got := small.missing(63); got != 1 {
		t.Errorf("small ring: %d frames, want 1", got)
	}
}
