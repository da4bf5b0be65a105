package datapath

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/wire"
)

// Other addresses of the interface do not keep an adapter whose own one is removed.
func TestOwnAddressRemovedBesideOthers(t *testing.T) {
	s := known()
	s.apply(&host.Event{Kind: host.EventAddress, Index: ourIndex, Prefix: netip.MustParsePrefix("10.99.0.7/24")})
	if got := s.apply(&host.Event{Kind: host.EventAddressGone, Index: ourIndex, Prefix: ownPrefix}); len(got) != 1 || got[0].cause == nil {
		t.Errorf("not ended: %v", kinds(got))
	}
}

// Packets follow the MTU, but no further than what the steering program was loaded for, and not below what every path carries.
func TestPacketsFollowTheMTU(t *testing.T) {
	for _, c := range []struct {
		mtu    int
		single bool
		want   int
	}{
		{1500, true, 1472},
		{1500, false, 1472},
		{9000, false, 8972},
		{9000, true, maxFrame - frameOverhead - 28},
		{1300, false, 1272},
		{1000, false, wire.MinPacket},
		{0, true, wire.MinPacket},
		{1 << 17, false, wire.MaxPacket},
	} {
		d := &Datapath{base: base{cfg: Config{Address: ourAddr}}, single: c.single}
		if got := d.resized(c.mtu); got != c.want {
			t.Errorf("MTU %d, single %v: packets of %d bytes, want %d", c.mtu, c.single, got, c.want)
		}
	}
}
