package shares

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// TestSharesBesideSparseConnections: shares are smaller while another connection than the one that moves bulk sends little, and for a while after.
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
		"small ones":          {[]int{100, 100}, Small},
		"small beside bulk":   {[]int{Most, 100}, Small},
		"no longer so small":  {[]int{Most, little + 1}, Most},
		"as much as is small": {[]int{Most, little}, Small},
	} {
		var r Shares
		for i, n := range c.sent {
			r.Sent(uint32(i%2), n, now)
		}
		if got, turn := r.At(now.Add(sparseFor - 1)); got != c.want || turn < got || turn > got+1<<10 {
			t.Errorf("%s: a share of %d, want %d", name, got, c.want)
		}
		if got, _ := r.At(now.Add(sparseFor)); got != Most {
			t.Errorf("%s, later: a share of %d", name, got)
		}
	}
}
