package shares

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
		"nobody":              {nil, Most},
		"bulk alone":          {[]int{Most, 0, Most}, Most},
		"bulk that ends":      {[]int{Most, 0, 100}, Most},
		"two of bulk":         {[]int{Most, Most, Most}, Most},
		"ends of two of bulk": {[]int{Most, Most, 100, 100}, Most},
		"small ones":          {[]int{100, 100}, Most},
		"small beside bulk":   {[]int{Most, 100}, Small},
		"no longer so small":  {[]int{Most, little + 1}, Most},
		"as much as is small": {[]int{Most, little}, Small},
	} {
		var r Shares
		var by [2]Sends
		for i, n := range c.sent {
			r.Sent(&by[i%2], n, now)
		}
		if got, _ := r.At(now.Add(mixedFor-1), 1); got != c.want || r.Mixed(now.Add(mixedFor-1)) != (c.want == Small) {
			t.Errorf("%s: a share of %d, want %d", name, got, c.want)
		}
		if got, _ := r.At(now.Add(mixedFor), 1); got != Most {
			t.Errorf("%s, later: a share of %d", name, got)
		}
	}
}

// TestMixedAsLongAsBothSend: a sparse sender and a bulk sender count for equally long.
func TestMixedAsLongAsBothSend(t *testing.T) {
	const now = clock.Time(time.Hour)
	for name, last := range map[string]func(r *Shares, by *[2]Sends, now clock.Time){
		"sparse": func(r *Shares, by *[2]Sends, now clock.Time) { r.Sent(&by[0], Most, now) },
		"bulk":   func(r *Shares, by *[2]Sends, now clock.Time) { r.Sent(&by[1], 100, now) },
	} {
		var r Shares
		var by [2]Sends
		r.Sent(&by[0], Most, now)
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
		var r Shares
		var by [2]Sends
		r.Sent(&by[0], Most, now)
		r.Sent(&by[1], Most, now.Add(after))
		r.Sent(&by[0], 100, now.Add(after))
		if r.Mixed(now.Add(after)) != want {
			t.Errorf("little after %v: mixed is %v", after, !want)
		}
	}
}

// TestTurns: in a poll each waiting connection gets a share, up to a limit. Beside sparse connections only one bulk sender gets a
// share.
func TestTurns(t *testing.T) {
	var r Shares
	for waiting, want := range map[int]int{1: 64 << 10, 2: 128 << 10, 4: 256 << 10, 5: 256 << 10} {
		if _, turn := r.At(1, waiting); turn != want {
			t.Errorf("a turn of %d ends after %d bytes, want %d", waiting, turn, want)
		}
	}
	var by [2]Sends
	r.Sent(&by[0], Most, 1)
	r.Sent(&by[1], 100, 1)
	if share, turn := r.At(1, 4); turn >= share {
		t.Errorf("a turn ends after %d bytes, want less than the share of %d", turn, share)
	}
}
