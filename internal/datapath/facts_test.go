package datapath

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/wire"
)

// Other addresses of the interface do not keep an adapter whose own one is removed.
func TestOwnAddressRemovedBesideOthers(t *testing.T) {
	s := known()
	s.apply(&event{kind: eventAddress, index: ourIndex, prefix: netip.MustParsePrefix("10.99.0.7/24")})
	if got := s.apply(&event{kind: eventAddressGone, index: ourIndex, prefix: ownPrefix}); len(got) != 1 || got[0].cause == nil {
		t.Errorf("not ended: %v", kinds(got))
	}
}

// A neighbour is one that can be sent to only in a state in which the kernel sends to it, whatever address is told.
func TestNeighbourStates(t *testing.T) {
	dst, to := nl.NewRtAttr(netlink.NDA_DST, peerOne.AsSlice()), nl.NewRtAttr(netlink.NDA_LLADDR, macB[:])
	for state, want := range map[uint16]bool{
		unix.NUD_REACHABLE: true, unix.NUD_STALE: true, unix.NUD_DELAY: true, unix.NUD_PROBE: true, unix.NUD_PERMANENT: true,
		unix.NUD_NOARP: true, unix.NUD_NONE: false, unix.NUD_INCOMPLETE: false, unix.NUD_FAILED: false,
	} {
		e, ok := parseRoute(neighbourMessage(unix.RTM_NEWNEIGH, unix.AF_INET, state, dst, to))
		if got := ok && e.kind == eventNeighbour; got != want {
			t.Errorf("state %#x: %+v, %v", state, e, ok)
		}
	}
}

// On a point-to-point link there are two addresses in a message, in either order, and one of them is ours.
func TestAddressOfAPointToPointLink(t *testing.T) {
	own, peer := nl.NewRtAttr(unix.IFA_LOCAL, ourAddr.AsSlice()), nl.NewRtAttr(unix.IFA_ADDRESS, peerOne.AsSlice())
	for _, both := range [][2]*nl.RtAttr{{own, peer}, {peer, own}} {
		header := []byte{unix.AF_INET, 32, 0, 0, ourIndex, 0, 0, 0}
		e, ok := parseRoute(message(unix.RTM_NEWADDR, header, both[0], both[1]))
		if !ok || e.prefix.Addr() != ourAddr {
			t.Errorf("%+v, %v, want the prefix of %s", e, ok, ourAddr)
		}
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
