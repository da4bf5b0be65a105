package bench

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// TestAllocationsOfTheWarmUpAreNotCounted: memory that grows before the measured part is not counted for operations.
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

// TestNeedlessAreOfThoseSentAgain: if a peer reports packets that were retransmitted before the measured part, no more retransmissions
// count as needless than there were.
func TestNeedlessAreOfThoseSentAgain(t *testing.T) {
	before := nd.Stats{Recovery: nd.RecoveryStats{ResentProbe: 7, Duplicates: 4}}
	now := nd.Stats{Recovery: nd.RecoveryStats{ResentProbe: 9, ResentTimeout: 1, Duplicates: 9}}
	if got, want := resentOf(&now, &before), (Resent{Probe: 2, Timeout: 1, Needless: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	now.Recovery.Duplicates = 6
	if got := resentOf(&now, &before); got.Needless != 2 {
		t.Errorf("%+v, want 2 needless", got)
	}
}
