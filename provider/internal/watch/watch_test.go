package watch

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/interleave"
)

// An application that slept counts as a poller after many polls were run for it, until it sleeps again.
func TestStays(t *testing.T) {
	v := Watch{vacated: interleave.NewEvent()}
	sleep := func() {
		w := NewWait()
		v.Seek(w)
		v.End(w, false)
	}
	for range 3 {
		sleep()
		for by := range numCallers {
			if by != CallerPoll && by != CallerRing && (v.stays(by) || v.visits.Load() != 0) {
				t.Errorf("caller %d counts", by)
			}
		}
		for n := 1; v.Left(); n++ {
			by := CallerPoll
			if n%2 == 0 {
				by = CallerRing
			}
			if stays := v.stays(by); stays != (n == mostVisits) || stays == v.Left() {
				t.Fatalf("turn %d: stays %v, left %v", n, stays, v.Left())
			}
		}
		sleep()
		for range mostVisits - 1 {
			v.stays(CallerPoll)
		}
		if !v.Left() {
			t.Error("polls count beyond a sleep")
		}
		sleep()
		v.Forsake()
		for range mostVisits {
			if v.stays(CallerPoll) {
				t.Error("an application counts as a poller although nobody polled for it")
			}
		}
	}
}
