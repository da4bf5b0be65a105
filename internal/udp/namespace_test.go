package udp

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestNetworkOfAnotherThread opens a socket in the namespace in which the Network was made.
func TestNetworkOfAnotherThread(t *testing.T) {
	ns := netlabtest.Namespace(t)
	var n *Network
	must(t, ns.Do(func() (err error) { n, err = NewNetwork(); return err }))
	defer func() { must(t, n.Close()) }()
	s, err := n.Open(Config{Local: netip.AddrPortFrom(addrA, 0)})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	if here := newNetwork(t); cookieOf(s.FD()) != n.cookie || here.cookie == n.cookie {
		t.Errorf("socket in %d, network %d, here %d", cookieOf(s.FD()), n.cookie, here.cookie)
	}
}

// TestNetworksShareADescriptor: the networks of a namespace share one descriptor of it, until the last network is closed.
func TestNetworksShareADescriptor(t *testing.T) {
	one, two := newNetwork(t), newNetwork(t)
	if one.cookie == 0 {
		t.Skip("needs SO_NETNS_COOKIE: Linux 5.14")
	}
	if one.ns != two.ns {
		t.Error("two networks of one namespace have a descriptor each")
	}
	third, err := NewNetwork()
	must(t, err)
	must(t, third.Close())
	if _, err := one.ns.file.Stat(); err != nil {
		t.Errorf("the descriptor went with a network that is not the last one: %v", err)
	}
	other := netlabtest.Namespace(t)
	must(t, other.Do(func() (err error) { third, err = NewNetwork(); return err }))
	if third.ns == one.ns {
		t.Error("networks of two namespaces share a descriptor")
	}
	must(t, third.Close())
	if _, err := third.ns.file.Stat(); err == nil {
		t.Error("an unused namespace has a descriptor")
	}
}
