package nd

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// exchange writes, reads and sends a megabyte of random bytes, and compares all bytes and the memory around them.
func (r *rig) exchange(t *testing.T) {
	t.Helper()
	const size, edge = 1 << 20, 64
	client, server := r.connect(t, size+2*edge)
	rng := rand.New(rand.NewPCG(5, 6))
	data := client.mr.Bytes()[edge : edge+size]
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	want := make([]byte, size+2*edge)
	copy(want[edge:], data)
	must(t, client.qp.Write(1, []SGE{client.mr.SGE(edge, size)}, server.mr.Address()+edge, server.mr.RemoteToken(), 0))
	client.wantResult(t, 1, RequestWrite, StatusSuccess)
	r.b.sync()
	if !bytes.Equal(server.mr.Bytes(), want) {
		t.Fatal("the Write did not arrive whole, or beyond its place")
	}
	clear(data)
	must(t, client.qp.Read(2, []SGE{client.mr.SGE(edge, size)}, server.mr.Address()+edge, server.mr.RemoteToken(), 0))
	client.wantResult(t, 2, RequestRead, StatusSuccess)
	if !bytes.Equal(client.mr.Bytes(), want) {
		t.Fatal("the Read did not arrive whole, or beyond its place")
	}
	r.b.sync()
	clear(server.mr.Bytes())
	must(t, server.qp.Receive(3, []SGE{server.mr.SGE(edge, size)}))
	must(t, client.qp.Send(4, []SGE{client.mr.SGE(edge, size)}, 0))
	client.wantResult(t, 4, RequestSend, StatusSuccess)
	if res := server.wantResult(t, 3, RequestReceive, StatusSuccess); res.Bytes != size || !bytes.Equal(server.mr.Bytes(), want) {
		t.Fatalf("the Send did not arrive whole: %+v", res)
	}
	disconnectBoth(t, server, client)
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			pair := netlabtest.Pair(t, netlab.PairConfig{MTU: mtu, IPv6: true})
			r := &rig{addr: [2]netip.Addr{pair.Addr6A.Addr(), pair.Addr6B.Addr()}, pair: pair}
			r.a = openIn(t, pair.A, AdapterConfig{Address: r.addr[0]})
			r.b = openIn(t, pair.B, AdapterConfig{Address: r.addr[1]})
			r.exchange(t)
			e := newEnd(t, r.a, 64)
			err := e.ctr.Connect(t.Context(), e.qp, netip.MustParseAddrPort("10.99.0.2:7000"), ConnectParams{})
			wantStatus(t, "IPv4 over an IPv6 adapter", err, ErrInvalidAddress)
		})
	}
}

// TestSecondInterface: two machines have two interfaces each in one network. Adapters on the second interfaces use these. The
// kernel's routes would use the first interfaces for every address of the network.
func TestSecondInterface(t *testing.T) {
	for _, dp := range []Datapath{DatapathAuto, DatapathGeneric, DatapathNative, DatapathUDP, DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			pair := netlabtest.Pair(t, netlab.PairConfig{})
			ends := []*netlab.Namespace{pair.A, pair.B}
			r := &rig{pair: pair, addr: [2]netip.Addr{netip.MustParseAddr("10.99.0.11"), netip.MustParseAddr("10.99.0.12")}}
			must(t, pair.A.Do(func() error {
				veth := netlink.NewVeth(netlink.LinkAttrs{Name: "nd1", MTU: 1500, TxQLen: -1})
				veth.PeerName, veth.PeerNamespace = "nd1", netlink.NsFd(pair.B.FD())
				return netlink.LinkAdd(veth)
			}))
			for i, ns := range ends {
				must(t, ns.Do(func() error {
					link, err := netlink.LinkByName("nd1")
					must(t, err)
					addr, err := netlink.ParseAddr(r.addr[i].String() + "/24")
					must(t, err)
					return errors.Join(netlink.AddrAdd(link, addr), netlink.LinkSetUp(link))
				}))
			}
			for i, a := range []**Adapter{&r.a, &r.b} {
				*a = openIn(t, ends[i], AdapterConfig{Address: r.addr[i], Datapath: dp})
			}
			moveEverything(t, r)
			for i, ns := range ends {
				must(t, ns.Do(func() error {
					first, err := netlink.LinkByName(netlab.DefaultName)
					must(t, err)
					if n := first.Attrs().Statistics.TxPackets; n > 100 { // only neighbour resolution, no data
						t.Errorf("end %d sent %d packets by the first interface", i, n)
					}
					return nil
				}))
			}
		})
	}
}

// TestPlainSocketsOverIPv6: plain sockets name the interface that they send from, as over IPv4.
func TestPlainSocketsOverIPv6(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: true})
	r := &rig{pair: pair, addr: [2]netip.Addr{pair.Addr6A.Addr(), pair.Addr6B.Addr()}}
	r.a = openIn(t, pair.A, AdapterConfig{Address: r.addr[0], Datapath: DatapathUDP})
	r.b = openIn(t, pair.B, AdapterConfig{Address: r.addr[1], Datapath: DatapathUDP})
	moveEverything(t, r)
}
