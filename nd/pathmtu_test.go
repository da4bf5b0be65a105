package nd

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// Paths on a real kernel whose MTU is below that of their links, and links whose MTU changes under traffic (PROTOCOL §9.6).

// half is the number of bytes of a transfer in each direction.
const half = 512 << 10

// transfer writes the lower half of the client's memory to the server's, reads it back into the upper half, and compares the two.
// The server does nothing.
func transfer(t *testing.T, client, server *end, seed byte) {
	t.Helper()
	mem := client.mr.Bytes()
	for i := range half {
		mem[i] = byte(i>>8) ^ byte(i) ^ seed
	}
	clear(mem[half : 2*half])
	must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, half)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	must(t, client.qp.Read(2, []SGE{client.mr.SGE(half, half)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	client.wantResult(t, 1, RequestWrite, StatusSuccess)
	client.wantResult(t, 2, RequestRead, StatusSuccess)
	if !bytes.Equal(mem[:half], mem[half:2*half]) {
		t.Fatal("the bytes that came back are not those that were sent")
	}
}

// perPacket returns the mean number of bytes in one adapter's packets during f.
func perPacket(a *Adapter, f func()) uint64 {
	before := a.Stats()
	f()
	after := a.Stats()
	return (after.Packets.BytesOut - before.Packets.BytesOut) / (after.Packets.Out - before.Packets.Out)
}

// The MTU on both sides falls and rises while a connection is used: the packet size follows, and nothing is lost.
func TestLiveMTU(t *testing.T) {
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative, DatapathUDP, DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 9000, dp)
			client, server := r.connect(t, 2*half)
			transfer(t, client, server, 0)
			if n := perPacket(r.a, func() { transfer(t, client, server, 1) }); n < 3000 {
				t.Errorf("%d bytes a packet at MTU 9000", n)
			}
			for i, mtu := range []int{1500, 9000, 2000, 1300, 9000} {
				done := start(func() error { return r.pair.SetMTU(mtu) })
				for range 4 {
					transfer(t, client, server, byte(2+i))
				}
				must(t, finish(t, "set the MTU", done))
				eventually(t, "the connection follows the MTU", func() bool {
					n := perPacket(r.a, func() { transfer(t, client, server, byte(3+i)) })
					return int(n) <= mtu && int(n) > mtu/3
				})
			}
			if s := r.a.Stats(); s.Paths.Raised < 3 || s.Connections.Lost != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The MTU of a router between the two is smaller than that of both links, from the beginning or from some moment on, and in one
// direction only. The connection gets no usable report of it.
func TestRouterWithSmallerMTU(t *testing.T) {
	for _, dp := range []Datapath{DatapathGeneric, DatapathUDP, DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			star := netlabtest.Star(t, netlab.StarConfig{MTU: 9000})
			must(t, star.SetMTU(1, 9000, 1500)) // the port towards the second host, so packets from the first host are too long
			r := &rig{addr: [2]netip.Addr{star.Hosts[0].Addr.Addr(), star.Hosts[1].Addr.Addr()}}
			r.a = openIn(t, star.Hosts[0].NS, AdapterConfig{Address: r.addr[0], Datapath: dp})
			r.b = openIn(t, star.Hosts[1].NS, AdapterConfig{Address: r.addr[1], Datapath: dp})
			client, server := r.connect(t, 2*half)
			eventually(t, "the search finds 1500", func() bool {
				n := perPacket(r.a, func() { transfer(t, client, server, 1) })
				return n > 1200 && n <= 1472
			})
			if s := r.a.Stats(); s.Paths.BlackHoles != 0 {
				t.Errorf("data were sent in a size that was not known to pass: %+v", s)
			}
			must(t, star.SetMTU(1, 9000, 1280))
			for i := range 10 {
				transfer(t, client, server, byte(i))
			}
			s := r.a.Stats()
			if s.Paths.BlackHoles == 0 || s.Connections.Lost != 0 {
				t.Errorf("after the path shrank: %+v", s)
			}
		})
	}
}

// If an interface goes down and comes up again, only packets sent meanwhile are lost: connections continue.
func TestInterfaceDownAndUp(t *testing.T) {
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative, DatapathUDP, DatapathRing} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1500, dp)
			client, server := r.connect(t, 2*half)
			transfer(t, client, server, 0)
			set := func(change func(netlink.Link) error) {
				t.Helper()
				must(t, r.pair.A.Do(func() error {
					link, err := netlink.LinkByIndex(r.pair.IfindexA)
					if err != nil {
						return err
					}
					return change(link)
				}))
			}
			set(netlink.LinkSetDown)
			must(t, client.qp.Write(7, []SGE{client.mr.SGE(0, half)}, server.mr.Address(), server.mr.RemoteToken(), 0))
			retransmits := r.a.Stats().Recovery.Retransmits
			eventually(t, "the engine repeats what was lost", func() bool { return r.a.Stats().Recovery.Retransmits > retransmits })
			set(netlink.LinkSetUp)
			client.wantResult(t, 7, RequestWrite, StatusSuccess)
			transfer(t, client, server, 1)
			if s := r.a.Stats(); s.Connections.Lost != 0 || r.b.Stats().Connections.Lost != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
