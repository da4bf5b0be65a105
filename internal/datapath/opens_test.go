package datapath

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// Adapters open while other interfaces come and go, as on a machine with many containers.
func TestOpensWhileInterfacesComeAndGo(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	veth := func(i int) netlink.Link {
		return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("here%d", i)}, PeerName: fmt.Sprintf("there%d", i)}
	}
	const crowd = 50 // pairs: the kernel needs several messages to list them
	must(t, pair.A.Do(func() error {
		for i := range crowd {
			must(t, netlink.LinkAdd(veth(i)))
		}
		return nil
	}))
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- pair.A.Do(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := errors.Join(netlink.LinkAdd(veth(crowd)), netlink.LinkDel(veth(crowd))); err != nil {
					return err
				}
			}
		})
	}()
	defer func() {
		close(stop)
		must(t, <-done)
	}()
	must(t, pair.A.Do(func() error {
		for range 300 {
			d, err := Open(plan.Config{Address: pair.AddrA.Addr(), Datapath: plan.UDP})
			if err != nil {
				return err
			}
			must(t, d.Close())
		}
		return nil
	}))
}
