package nd

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The interface is removed during a connection: pending calls finish with ErrDeviceRemoved, posted requests are canceled, later
// calls are refused, and all objects can be closed.
func TestInterfaceRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, _ := r.connect(t, 4096)
	must(t, client.qp.Receive(7, []SGE{client.mr.SGE(0, 64)}))
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	r.removeInterface(t)
	wantStatus(t, "notify disconnect", finish(t, "notify disconnect", notified), ErrDeviceRemoved)
	client.wantResult(t, 7, RequestReceive, ErrCanceled)
	_, err := r.a.CreateCompletionQueue(1)
	wantStatus(t, "create completion queue", err, ErrDeviceRemoved)
	ctr := client.ctr
	wantStatus(t, "disconnect", ctr.Disconnect(t.Context()), ErrDeviceRemoved)
	wantStatus(t, "connect", ctr.Connect(t.Context(), client.qp, netip.AddrPortFrom(r.addr[1], 7000), ConnectParams{}), ErrDeviceRemoved)
	if cause := r.a.Removed(); cause == nil || !strings.Contains(err.Error(), cause.Error()) {
		t.Errorf("the cause of the removal is %v, and the error is %v", cause, err)
	}
	must(t, client.mr.Close())
	must(t, client.qp.Close())
	must(t, ctr.Close())
	must(t, r.a.Close())
}

// If an adapter's address is removed, its connections are lost: pending calls end, and every error reports the cause.
func TestAddressRemoved(t *testing.T) {
	t.Parallel()
	for _, dp := range []Datapath{DatapathGeneric, DatapathUDP, DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			log := make(lines, 16)
			r := newRigOf(t, 1500, AdapterConfig{Datapath: dp, FlightLog: log})
			client, _ := r.connect(t, 4096)
			if err := r.a.Removed(); err != nil {
				t.Errorf("removed while it works: %v", err)
			}
			notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
			must(t, r.pair.A.Do(func() error {
				addr, err := netlink.ParseAddr(r.pair.AddrA.String())
				must(t, err)
				return netlink.AddrDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: r.pair.IfindexA}}, addr)
			}))
			wantStatus(t, "notify disconnect", finish(t, "notify disconnect", notified), ErrDeviceRemoved)
			const why = "address 10.99.0.1 was removed from interface nd0"
			if err := r.a.Removed(); err == nil || err.Error() != why {
				t.Errorf("removed because %v, want %s", err, why)
			}
			_, err := r.a.Query()
			wantStatus(t, "query", err, ErrDeviceRemoved)
			if !strings.Contains(err.Error(), why) {
				t.Errorf("%v", err)
			}
			for late, found := time.After(patience), false; !found; {
				select {
				case text := <-log: // the other adapter may log at any time that its connection was lost
					if found = !strings.HasPrefix(text, "connection "); found && text != "the adapter ended: "+why+"\n" {
						t.Errorf("logged %q", text)
					}
				case <-late:
					t.Fatal("the end of the adapter was not logged")
				}
			}
			must(t, r.b.Close())
			if err := r.b.Removed(); err != nil {
				t.Errorf("a closed adapter was removed: %v", err)
			}
		})
	}
}

// An adapter notices that its address was removed also if its process has no free descriptor.
func TestAddressRemovedWithoutDescriptors(t *testing.T) {
	for _, dp := range []Datapath{DatapathGeneric, DatapathUDP, DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			r := newRig(t, 1500, dp)
			client, _ := r.connect(t, 4096)
			notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
			must(t, r.pair.A.Do(func() error {
				h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
				must(t, err)
				defer h.Close()
				addr, err := netlink.ParseAddr(r.pair.AddrA.String())
				must(t, err)
				WithoutDescriptors(t, func() {
					err = h.AddrDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: r.pair.IfindexA}}, addr)
					wantStatus(t, "notify disconnect", finish(t, "notify disconnect", notified), ErrDeviceRemoved)
				})
				return err
			}))
			if err := r.a.Removed(); err == nil || !strings.Contains(err.Error(), "address 10.99.0.1 was removed") {
				t.Errorf("removed because %v", err)
			}
		})
	}
}
