package nd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// An adapter on plain sockets reaches itself, on a loopback address and on one of an Ethernet, and says so.
func TestUDPConnectsToItself(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500})
	for _, addr := range []netip.Addr{loopback[0], pair.AddrA.Addr()} {
		t.Run(addr.String(), func(t *testing.T) {
			a := openIn(t, pair.A, AdapterConfig{Address: addr, Datapath: DatapathUDP})
			info, err := a.Query()
			must(t, err)
			if info.Flags&AdapterLoopbackConnections == 0 {
				t.Errorf("flags %#x: it does not say so", uint32(info.Flags))
			}
			moveEverything(t, &rig{a: a, b: a})
		})
	}
}

// An AF_XDP socket sees what the interface carries, and packets to the own address are not among that: the adapter says so
// beforehand, and a Connect says why it cannot be and what reaches the address.
func TestAFXDPRefusesItself(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500})
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative} {
		t.Run(dp.String(), func(t *testing.T) {
			a := openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr(), Datapath: dp})
			info, err := a.Query()
			must(t, err)
			if info.Flags&AdapterLoopbackConnections != 0 {
				t.Errorf("flags %#x: it says that it reaches itself", uint32(info.Flags))
			}
			e := newEnd(t, a, 64)
			_, at := listen(t, a, 1)
			must(t, e.ctr.Bind(e.anyPort()))
			err = e.ctr.Connect(t.Context(), e.qp, at, helloParams)
			wantStatus(t, "connect", err, ErrNetworkUnreachable)
			if err == nil || !strings.Contains(err.Error(), "own address") || !strings.Contains(err.Error(), "the datapath udp reaches it") {
				t.Errorf("%v: it says not why, or not what to do", err)
			}
		})
	}
}
