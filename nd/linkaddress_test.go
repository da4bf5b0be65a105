package nd

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
)

// The link-layer address of one side changes right after the connection was made. The connection continues, although packets to the
// old address are lost from then on.
func TestLinkAddressChangesUnderConnection(t *testing.T) {
	t.Parallel()
	for _, dp := range []Datapath{DatapathAuto, DatapathGeneric, DatapathRing, DatapathUDP} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1500, dp)
			client, server := r.connect(t, 4096)
			change := func(ifindex int, to net.HardwareAddr) func() error {
				return func() error {
					return netlink.LinkSetHardwareAddr(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}, to)
				}
			}
			write := func(context uint64) {
				t.Helper()
				must(t, client.qp.Write(context, []SGE{client.mr.SGE(0, 4096)}, server.mr.Address(), server.mr.RemoteToken(), 0))
				client.wantResult(t, context, RequestWrite, StatusSuccess)
			}
			must(t, r.pair.B.Do(change(r.pair.IfindexB, net.HardwareAddr{2, 0, 0, 0, 0, 0xb1})))
			write(1)
			must(t, r.pair.A.Do(change(r.pair.IfindexA, net.HardwareAddr{2, 0, 0, 0, 0, 0xa1})))
			write(2)
			must(t, r.pair.B.Do(change(r.pair.IfindexB, net.HardwareAddr{2, 0, 0, 0, 0, 0xb2}))) // a second change, soon after the first
			write(3)
		})
	}
}
