package udp

import (
	"net/netip"
	"slices"
	"testing"
)

// Without netlink, the loopback addresses are found, and no address that is not usable yet.
func TestAssignedAddresses(t *testing.T) {
	all, err := AssignedAddresses()
	if err != nil || !slices.Contains(all, Assigned{"lo", netip.MustParseAddr("127.0.0.1")}) {
		t.Errorf("%v, %v", all, err)
	}
	got := parseInet6("fd770000000000000000000000000001 02 40 00 80 va\nfd770000000000000000000000000002 02 40 00 c0 va\nodd\n00 01 02 03 04 x\n")
	if !slices.Equal(got, []Assigned{{"va", netip.MustParseAddr("fd77::1")}}) {
		t.Errorf("%v", got)
	}
}
