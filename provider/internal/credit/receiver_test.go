package credit

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// The receive limit allows one SEND for each receive. A packet of its own reports new receives if the peer has none left, or if the
// new ones are as many as it has left. A packet that leaves anyway reports them at half as many.
func TestReceiverTellsWhenShort(t *testing.T) {
	var r Receiver
	for _, step := range []struct {
		receives     uint32
		short, worth bool
	}{{0, false, false}, {4, true, true}, {5, false, false}, {6, false, true}, {7, false, true}, {8, true, true}} {
		limit := r.Limit(step.receives)
		if r.Short(limit) != step.short || r.Worth(limit) != step.worth {
			t.Errorf("%d receives, %d left: short %v, worth telling %v", step.receives, r.Left(), r.Short(limit), r.Worth(limit))
		}
		if r.Told() == 0 && step.short {
			r.Tell(limit)
		}
	}
	r.Took()
	r.Took()
	if r.Left() != 2 || r.Next() != 2 {
		t.Errorf("%d left", r.Left())
	}
	if r.Withdraw(); r.Left() != 0 || !r.Short(r.Limit(1)) {
		t.Errorf("%d receives left after they were withdrawn", r.Left())
	}
}

// A peer may have seen any message of the handshake. It counts as told of the lowest limit, so that it hears of a higher one.
func TestReceiverCountsTheLowestPromise(t *testing.T) {
	var r Receiver
	for _, step := range []struct{ limit, told uint32 }{{3, 3}, {5, 3}, {1, 1}, {4, 1}} {
		if r.Promise(step.limit); r.Told() != step.told || !r.Allowed(2) {
			t.Errorf("promised %d, told %d, want %d", step.limit, r.Told(), step.told)
		}
	}
	if !r.Short(4) || r.Short(1) || !r.Allowed(4) || r.Allowed(5) {
		t.Errorf("short of 4: %v, of 1: %v", r.Short(4), r.Short(1))
	}
}

// With a shared queue the limit allows at least one SEND, never falls, and allows no SEND while one has found no receive.
func TestReceiverSharesReceives(t *testing.T) {
	var r Receiver
	if r.SharedLimit(0, 0) != 1 || r.SharedLimit(1, 5) != 6 {
		t.Errorf("%d, %d", r.SharedLimit(0, 0), r.SharedLimit(1, 5))
	}
	if r.Tell(6); r.SharedLimit(0, 2) != 6 {
		t.Errorf("%d after 6", r.SharedLimit(0, 2))
	}
	if r.Wait.Starve(100); r.SharedLimit(0, 2) != 0 {
		t.Errorf("%d while it waits", r.SharedLimit(0, 2))
	}
}

// TAKENBACK is reported until the peer has acknowledged it, and RNR until there is a receive.
func TestReceiverTakesBack(t *testing.T) {
	var r Receiver
	var m wire.Report
	if r.Report(&m); r.TakenBack() || m != (wire.Report{}) {
		t.Errorf("nothing was taken back: %+v", m)
	}
	r.Wait.Starve(100)
	r.TakeBack(1<<32+7, space.At(1<<16+3, 40))
	r.Report(&m)
	if want := (wire.Report{Flags: wire.ReportTakenBack | wire.ReportRNR, UpTo: 7, Message: 3, Offset: 40}); m != want {
		t.Errorf("%+v, want %+v", m, want)
	}
	if r.Known(); !r.TakenBack() {
		t.Error("RNR ends before there is a receive")
	}
	r.Wait.Promise()
	m = wire.Report{}
	if r.Report(&m); m.Flags != wire.ReportTakenBack {
		t.Errorf("with a receive: %+v", m)
	}
	if r.Known(); r.TakenBack() {
		t.Error("reported to a peer that knows it already")
	}
}
