package sim

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Packets may arrive so late that their truncated numbers stand for other full numbers. Such late packets change nothing, in
// streams of Writes and of READs (PROTOCOL §3.4).
func TestStreamsWithLatePackets(t *testing.T) {
	worlds := map[provider.RequestKind]int{}
	var all Report
	for seed := uint64(1); worlds[provider.KindWrite] < 6 || worlds[provider.KindRead] < 2; seed++ {
		w := newStreamWorld(seed, Options{Without: Faults(0).With(Corrupt)})
		worlds[w.stream.Kind]++
		w.live()
		w.count(&all)
		if len(w.net.broken) > 0 {
			t.Fatalf("seed %d, %+v, after %d messages: %v", seed, w.net.Conditions, w.stream.done, w.net.broken)
		}
	}
	if all.Drops[wire.DropCRC] == 0 || all.Drops[wire.DropDuplicate] == 0 {
		t.Errorf("of %d late packets %d counted as damaged and %d were duplicates", all.Happened[Late], all.Drops[wire.DropCRC], all.Drops[wire.DropDuplicate])
	}
}
