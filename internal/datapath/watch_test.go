package datapath

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// TestNeighbourMoves: a peer gets another link-layer address; what was resolved and every path to it follow.
func TestNeighbourMoves(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	peer := pair.AddrB.Addr()
	var d *Datapath
	must(t, pair.A.Do(func() (err error) {
		d, err = openXDP(Config{Address: pair.AddrA.Addr(), UDPPort: wire.DefaultPort})
		return err
	}))
	t.Cleanup(func() { must(t, d.Close()) })
	moved := make(chan struct{}, 16)
	var owner sync.Mutex // as the engine's
	d.Watch(func() { t.Error("the interface was not removed") }, func(_ int, f func(*provider.Engine)) {
		owner.Lock()
		f(nil)
		owner.Unlock()
		moved <- struct{}{}
	})
	must(t, d.Resolve(t.Context(), peer))
	owner.Lock()
	path, ok := d.queues[0].Connect(wire.EndpointFrom(netip.AddrPortFrom(pair.AddrA.Addr(), 50000)),
		wire.EndpointFrom(netip.AddrPortFrom(peer, wire.DefaultPort)))
	owner.Unlock()
	if !ok {
		t.Fatal("no path to a peer that was resolved")
	}
	want := [6]byte{0x02, 0, 0, 0, 0xbe, 0xef}
	must(t, pair.A.Do(func() error {
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: d.index, IP: net.IP(peer.AsSlice()), HardwareAddr: want[:], State: unix.NUD_PERMANENT,
		})
	}))
	deadline := time.After(5 * time.Second)
	for {
		select {
		case <-moved:
		case <-deadline:
			t.Fatal("the change was not noticed within 5 s")
		}
		if mac, _ := d.neighbors.cached(peer); mac == want {
			break
		}
	}
	frame := make([]byte, 64)
	owner.Lock()
	defer owner.Unlock()
	d.queues[0].paths[path].header.Put(frame, 22, wire.NotECT)
	if got := [6]byte(frame[:6]); got != want {
		t.Errorf("the path still goes to %x, want %x", got, want)
	}
}

// TestMTUChanges: the link's packet size follows the interface's MTU, between what every path carries and what the steering
// program and the buffers were made for.
func TestMTUChanges(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, rung := range []Rung{RungGeneric, RungUDP} {
		var d Device
		must(t, pair.A.Do(func() (err error) {
			d, err = Open(Config{Address: pair.AddrA.Addr(), Rung: rung})
			return err
		}))
		link := d.Ports()[0]
		engine := provider.New(provider.Config{}, link, provider.NewMemory(rand.New(rand.NewPCG(1, 1))), rand.New(rand.NewPCG(1, 1)))
		var owner sync.Mutex
		told := make(chan struct{}, 64)
		d.Watch(func() { t.Error("the interface was not removed") }, func(_ int, f func(*provider.Engine)) {
			owner.Lock()
			f(engine)
			owner.Unlock()
			told <- struct{}{}
		})
		largest := maxFrame - frameOverhead - 28 // a single-buffer program's
		if rung == RungUDP {
			largest = 1472 // the receive buffers'
		}
		for _, c := range []struct{ mtu, want int }{{1400, 1372}, {9000, largest}, {1000, wire.MinPacket}, {1500, 1472}} {
			must(t, pair.SetMTU(c.mtu))
			size := func() int {
				owner.Lock()
				defer owner.Unlock()
				return link.MaxPacket()
			}
			for deadline := time.After(5 * time.Second); size() != c.want; {
				select {
				case <-told:
				case <-deadline:
					t.Fatalf("%s: packets of %d bytes at MTU %d, want %d", rung, size(), c.mtu, c.want)
				}
			}
		}
		must(t, d.Close())
	}
}

// TestInterfaceIsRemoved: the removal is told once, and everything can still be closed.
func TestInterfaceIsRemoved(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	var d *Datapath
	must(t, pair.A.Do(func() (err error) {
		d, err = openXDP(Config{Address: pair.AddrA.Addr(), UDPPort: wire.DefaultPort})
		return err
	}))
	gone := make(chan struct{}, 2)
	d.Watch(func() { gone <- struct{}{} }, func(_ int, f func(*provider.Engine)) { f(nil) })
	must(t, pair.A.Do(func() error {
		link, err := netlink.LinkByIndex(d.index)
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	}))
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("the removal was not noticed within 5 s")
	}
	must(t, d.Close())
	if len(gone) != 0 {
		t.Error("the removal was told twice")
	}
}
