package xdp

import "testing"

// TestFillLevelRisesBeforeTheRingIsEmpty: if a fill ring is found less than a quarter full, its level doubles, up to all its slots.
func TestFillLevelRisesBeforeTheRingIsEmpty(t *testing.T) {
	l := newFillLevel(8192)
	if got := l.missing(0); got != firstFillLevel {
		t.Fatalf("first fill of %d frames, want %d", got, firstFillLevel)
	}
	if got := l.missing(firstFillLevel / 2); got != firstFillLevel/2 {
		t.Fatalf("half full: %d frames missing, want %d", got, firstFillLevel/2)
	}
	for want := uint32(2 * firstFillLevel); want <= 8192; want *= 2 {
		if got := l.missing(10); got != want-10 {
			t.Fatalf("nearly empty: %d frames missing, want %d", got, want-10)
		}
	}
	if got := l.missing(0); got != 8192 {
		t.Fatalf("full level: %d frames missing, want all 8192", got)
	}
}

// TestFillLevelSinksWhenItWasNotNeeded: if a level is hardly used for long, it is halved, but not below the minimum.
func TestFillLevelSinksWhenItWasNotNeeded(t *testing.T) {
	l := newFillLevel(4096)
	l.missing(0)
	l.missing(0)
	if l.now != 2*firstFillLevel {
		t.Fatalf("level %d, want %d", l.now, 2*firstFillLevel)
	}
	for range 200 * fillLevelPeriod {
		l.missing(l.now - 100)
	}
	if l.now != minFillLevel {
		t.Fatalf("level %d after a quiet time, want %d", l.now, minFillLevel)
	}
}

// TestFillLevelSavesPublishes: in a ring with many frames, a few missing frames are not replaced until more are missing.
func TestFillLevelSavesPublishes(t *testing.T) {
	l := newFillLevel(8192)
	l.missing(0)
	if got := l.missing(firstFillLevel - RefillBatch + 1); got != 0 {
		t.Errorf("%d frames for a nearly full ring, want none", got)
	}
	if got := l.missing(firstFillLevel - RefillBatch); got != RefillBatch {
		t.Errorf("%d frames, want %d", got, RefillBatch)
	}
	small := newFillLevel(64)
	small.missing(0)
	if got := small.missing(63); got != 1 {
		t.Errorf("small ring: %d frames, want 1", got)
	}
}

// TestFillLevelStays: a ring found a quarter full does not raise the level, and a ring found three quarters full does not lower it.
func TestFillLevelStays(t *testing.T) {
	for _, left := range []uint32{firstFillLevel / 4, firstFillLevel / 2, firstFillLevel / 4 * 3} {
		l := newFillLevel(8192)
		l.missing(0)
		for range 200 * fillLevelPeriod {
			l.missing(left)
		}
		if l.now != firstFillLevel {
			t.Errorf("level %d after %d frames were left each time, want %d", l.now, left, firstFillLevel)
		}
	}
	l := newFillLevel(8192)
	l.missing(0)
	if l.missing(firstFillLevel/4 - 1); l.now != 2*firstFillLevel {
		t.Errorf("level %d after less than a quarter was left, want %d", l.now, 2*firstFillLevel)
	}
}
