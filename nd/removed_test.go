package nd

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

// The interface goes away under a connection: what waits finishes with ErrDeviceRemoved, posted work is canceled, later
// calls are refused, and everything can be closed.
func TestInterfaceRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, _ := r.connect(t, 4096)
	must(t, client.qp.Receive(7, []SGE{client.mr.SGE(0, 64)}))
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	must(t, r.pair.A.Do(func() error {
		link, err := netlink.LinkByIndex(r.pair.IfindexA)
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	}))
	wantStatus(t, "notify disconnect", finish(t, "notify disconnect", notified), ErrDeviceRemoved)
	client.wantResult(t, 7, RequestReceive, ErrCanceled)
	_, err := r.a.CreateCompletionQueue(1)
	wantStatus(t, "create completion queue", err, ErrDeviceRemoved)
	ctr := client.ctr
	wantStatus(t, "disconnect", ctr.Disconnect(t.Context()), ErrDeviceRemoved)
	wantStatus(t, "connect", ctr.Connect(t.Context(), client.qp, netip.AddrPortFrom(r.addr[1], 7000), ConnectParams{}), ErrDeviceRemoved)
	must(t, client.mr.Close())
	must(t, client.qp.Close())
	must(t, ctr.Close())
	must(t, r.a.Close())
}
