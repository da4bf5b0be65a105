package ndhealth

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestInventory: the inventory of an interface has the settings that the kernel was given.
func TestInventory(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1400, Queues: 2})
	var m Machine
	if err := pair.A.Do(func() (err error) {
		m, err = Inventory()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if m.Kernel == "" || m.Processors == 0 || m.Namespace == 0 {
		t.Errorf("%+v", m)
	}
	at := slices.IndexFunc(m.Interfaces, func(i Interface) bool { return i.Name == "nd0" })
	if at < 0 {
		t.Fatalf("no nd0: %+v", m.Interfaces)
	}
	i := m.Interfaces[at]
	if i.Kind != "veth" || i.Driver != "veth" || i.State != "up" || !i.Carrier || i.MTU != 1400 || i.RxQueues != 2 || i.Qdisc == "" ||
		!slices.Contains(i.Addresses, netip.MustParsePrefix("10.99.0.1/24")) || !slices.Contains(i.Offloads, "tx-scatter-gather") || i.XDPFeatures == 0 {
		t.Errorf("%+v", i)
	}
}
