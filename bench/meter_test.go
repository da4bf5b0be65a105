package bench

import (
	"testing"
	"time"
)

// TestAllocationsOfTheWarmUpAreNotCounted: what grows before the measured part is no cost of an operation.
func TestAllocationsOfTheWarmUpAreNotCounted(t *testing.T) {
	const many = 100_000
	end := time.Now()
	m := meter{mallocs: mallocs(), warm: end}
	kept := make([]*int, many)
	grow := func() {
		for i := range kept {
			kept[i] = new(int)
			*kept[i] = 1 << 20
		}
	}
	grow()
	if m.leaveWarmUp(end); m.mallocsSince() < many {
		t.Errorf("%d allocations at the end of the warm-up, of %d", m.mallocsSince(), many)
	}
	if m.leaveWarmUp(end.Add(1)); m.mallocsSince() >= many || !m.warm.IsZero() {
		t.Errorf("%d allocations after the warm-up", m.mallocsSince())
	}
	grow()
	if m.mallocsSince() < many {
		t.Errorf("%d allocations of the measured part, of %d", m.mallocsSince(), many)
	}
}
