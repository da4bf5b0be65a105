package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// TestSharesBesideSparseConnections: while another connection than the bulk sender sends little, and for a while after, shares are
// smaller.
func TestSharesBesideSparseConnections(t *testing.T) {
	const now = clock.Time(time.Hour)
	for name, c := range map[string]struct {
		sent []int // by connections 0, 1, 0, 1 ...
		want int
	}{
		"nobody":              {nil, mostShare},
		"bulk alone":          {[]int{mostShare, 0, mostShare}, mostShare},
		"bulk that ends":      {[]int{mostShare, 0, 100}, mostShare},
		"two of bulk":         {[]int{mostShare, mostShare, mostShare}, mostShare},
		"ends of two of bulk": {[]int{mostShare, mostShare, 100, 100}, mostShare},
		"small ones":          {[]int{100, 100}, mostShare},
		"small beside bulk":   {[]int{mostShare, 100}, smallShare},
		"no longer so small":  {[]int{mostShare, littleSent + 1}, mostShare},
		"as much as is small": {[]int{mostShare, littleSent}, smallShare},
	} {
		var r shares
		var by [2]shareSends
		for i, n := range c.sent {
			r.Sent(&by[i%2], n, now)
		}
		if got, _ := r.At(now.Add(mixedFor-1), 1); got != c.want || r.Mixed(now.Add(mixedFor-1)) != (c.want == smallShare) {
			t.Errorf("%s: a share of %d, want %d", name, got, c.want)
		}
		if got, _ := r.At(now.Add(mixedFor), 1); got != mostShare {
			t.Errorf("%s, later: a share of %d", name, got)
		}
	}
}

// TestMixedAsLongAsBothSend: a sparse sender and a bulk sender count for equally long.
func TestMixedAsLongAsBothSend(t *testing.T) {
	const now = clock.Time(time.Hour)
	for name, last := range map[string]func(r *shares, by *[2]shareSends, now clock.Time){
		"sparse": func(r *shares, by *[2]shareSends, now clock.Time) { r.Sent(&by[0], mostShare, now) },
		"bulk":   func(r *shares, by *[2]shareSends, now clock.Time) { r.Sent(&by[1], 100, now) },
	} {
		var r shares
		var by [2]shareSends
		r.Sent(&by[0], mostShare, now)
		r.Sent(&by[1], 100, now)
		last(&r, &by, now.Add(mixedFor/2))
		if !r.Mixed(now.Add(mixedFor-1)) || r.Mixed(now.Add(mixedFor)) {
			t.Errorf("whether the last of the %s ones counts is wrong", name)
		}
	}
}

// TestBulkFor: a connection that sent much counts as sparse again after a while.
func TestBulkFor(t *testing.T) {
	const now = clock.Time(time.Hour)
	for after, want := range map[time.Duration]bool{bulkFor - 1: false, bulkFor: true} {
		var r shares
		var by [2]shareSends
		r.Sent(&by[0], mostShare, now)
		r.Sent(&by[1], mostShare, now.Add(after))
		r.Sent(&by[0], 100, now.Add(after))
		if r.Mixed(now.Add(after)) != want {
			t.Errorf("littleSent after %v: mixed is %v", after, !want)
		}
	}
}

// TestTurns: in a poll each waiting connection gets a share, up to a limit. Beside sparse connections only one bulk sender gets a
// share.
func TestTurns(t *testing.T) {
	var r shares
	for waiting, want := range map[int]int{1: 64 << 10, 2: 128 << 10, 4: 256 << 10, 5: 256 << 10} {
		if _, turn := r.At(1, waiting); turn != want {
			t.Errorf("a turn of %d ends after %d bytes, want %d", waiting, turn, want)
		}
	}
	var by [2]shareSends
	r.Sent(&by[0], mostShare, 1)
	r.Sent(&by[1], 100, 1)
	if share, turn := r.At(1, 4); turn >= share {
		t.Errorf("a turn ends after %d bytes, want less than the share of %d", turn, share)
	}
}
