package datapath

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/wire"
)

// The packet size follows the MTU, between the minimum of every path and the limit that the steering program was loaded with.
func TestPacketsFollowTheMTU(t *testing.T) {
	for _, c := range []struct {
		mtu    int
		single bool
		want   int
	}{
		{1500, true, 1472},
		{1500, false, 1472},
		{9000, false, 8972},
		{9000, true, plan.SingleBufferMTU - 28},
		{1300, false, 1272},
		{1000, false, wire.MinPacket},
		{0, true, wire.MinPacket},
		{1 << 17, false, wire.MaxPacket},
	} {
		d := &xdpDevice{base: base{cfg: plan.Config{Address: netip.MustParseAddr("10.99.0.1")}}, single: c.single}
		if got := d.resized(c.mtu); got != c.want {
			t.Errorf("MTU %d, single %v: packets of %d bytes, want %d", c.mtu, c.single, got, c.want)
		}
	}
}
