package congestion

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// If a path loses every GSO batch, batches pause for longer and longer, so that time-outs become rare. After a time without loss
// the pauses begin anew.
func TestRunsEndForLongerAndLonger(t *testing.T) {
	var r Runs
	now := clock.Time(time.Hour)
	if !r.May(now) {
		t.Fatal("no runs at first")
	}
	for want := firstApart; want < mostApart; want *= 2 {
		if !r.TimedOut(now) {
			t.Fatalf("after %v: a time-out changes nothing", want)
		}
		if r.TimedOut(now.Add(time.Millisecond)) {
			t.Error("a time-out of packets that left one by one counts")
		}
		if r.May(now.Add(want-1)) || !r.May(now.Add(want)) {
			t.Fatalf("packets do not leave one by one for %v", want)
		}
		now = now.Add(want + 3*time.Millisecond)
	}
	r.TimedOut(now)
	if r.May(now.Add(mostApart-1)) || !r.May(now.Add(mostApart)) {
		t.Error("packets do not leave one by one for the longest time")
	}
	now = now.Add((soon+1)*mostApart + 1)
	if r.TimedOut(now); !r.May(now.Add(firstApart)) {
		t.Error("a time-out after runs did well lasts as long as one before")
	}
}

// If a time-out was spurious, the pause and its doubling are reverted.
func TestRunsGoOnAfterATimeOutThatWasNone(t *testing.T) {
	var r Runs
	now := clock.Time(time.Hour)
	r.TimedOut(now)
	now = now.Add(firstApart)
	r.TimedOut(now)
	if r.InTime(now.Add(1)); !r.May(now.Add(1)) {
		t.Error("no runs")
	}
	r.TimedOut(now.Add(2))
	if !r.May(now.Add(2*firstApart + 2)) {
		t.Error("the time doubled all the same")
	}
	r.InTime(now.Add(time.Hour)) // the pause ended long ago
	if !r.May(now.Add(time.Hour)) {
		t.Error("an ended pause begins again")
	}
}
