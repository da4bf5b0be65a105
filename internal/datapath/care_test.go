package datapath

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/datapath/follow"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// carer is a device on side A of a pair and its only engine. Only the test follows the interface.
func carer(t *testing.T) (*rig, *xdpDevice, *provider.Engine) {
	t.Helper()
	r := &rig{t: t, pair: netlabtest.Pair(t, netlab.PairConfig{}), gone: make(chan error, 2)}
	r.inA(func() (err error) {
		r.device, err = Open(plan.Config{Address: r.pair.AddrA.Addr(), Datapath: plan.Generic})
		return err
	})
	t.Cleanup(func() { must(t, r.device.Close()) })
	d := r.device.(*xdpDevice)
	rng := rand.New(rand.NewPCG(1, 1))
	engine := provider.NewGroup(provider.Config{}, []provider.Link{d.queues[0]}, provider.NewMemory(rng), rng)[0]
	r.engines = append(r.engines, engine)
	w := d.follower
	w.Unseen = d.pathsMade.Load
	w.Attach(d, func(_ int, f func(*provider.Engine)) { f(engine) }, func(cause error) { r.gone <- cause })
	return r, d, engine
}

// TestCareAllocatesLittle: every process checks its neighbours periodically. The allocations of a check do not depend on how many
// other neighbours the kernel knows.
func TestCareAllocatesLittle(t *testing.T) {
	const most, others = 15, 200
	r, d, _ := carer(t)
	w := d.follower
	w.Resync()
	r.connect(r.pair.AddrB.Addr())
	r.inA(func() (err error) {
		for i := range others {
			err = errors.Join(err, netlink.NeighSet(&netlink.Neigh{
				LinkIndex: r.pair.IfindexA, IP: net.IPv4(10, 99, 0, byte(10+i)), HardwareAddr: macX[:], State: unix.NUD_PERMANENT,
			}))
		}
		return err
	})
	if n := testing.AllocsPerRun(100, w.Care); n > most {
		t.Errorf("one check allocates %.1f times, want at most %d", n, most)
	}
	hops, to := map[netip.Addr]netip.Addr{}, map[netip.Addr][6]byte{}
	d.state.HopsInUse(hops)
	d.state.Addresses(to)
	if len(hops) != 1 || len(to) != 1 {
		t.Errorf("checked neighbours %v, routes %v", hops, to)
	}
}

// TestCare: the routes of all paths are refreshed periodically. That includes a path whose connection changed its port while its
// route changed, and a path to a peer that is reached by a neighbour that is not on the route.
func TestCare(t *testing.T) {
	t.Parallel()
	r, d, engine := carer(t)
	w := d.follower
	w.Resync()

	peer := r.pair.AddrB.Addr()
	out, in := r.connect(peer), r.answer(peer, macX)
	d.queues[0].paths[out].header.SetDestination(macY)
	for range 2*follow.PathsAtOnce + 1 { // more than one check covers
		r.answer(peer, macY)
	}
	w.Care()
	for p := out; p <= in+2*follow.PathsAtOnce+1; p++ {
		if got := d.queues[0].Hop(p); got != [6]byte(r.pair.MACB) {
			t.Fatalf("path %d goes to %x, want %x", p, got, r.pair.MACB)
		}
	}
	record := engine.FlightRecord()
	if n := len(record.Events); n == 0 || record.Events[n-1].From != uint32(provider.InterfaceRoute) {
		t.Errorf("%+v", record.Events)
	}
	for p := out; p <= in+2*follow.PathsAtOnce+1; p++ {
		d.queues[0].Forget(p)
	}
	d.state.Stale() // pretends that the last check was long ago
	w.Care()
	hops := map[netip.Addr]netip.Addr{}
	if d.state.HopsInUse(hops); len(hops) != 0 {
		t.Errorf("%v are in use without a path", hops)
	}
}

// TestSteeringIsTakenAway: without its XDP program an adapter receives nothing, and no event reports that. The adapter detects it
// and ends.
func TestSteeringIsTakenAway(t *testing.T) {
	t.Parallel()
	r, d, _ := carer(t)
	w := d.follower
	w.Care()
	if len(r.gone) != 0 {
		t.Fatalf("it ended: %v", <-r.gone)
	}
	r.inA(func() error {
		held, err := bpf.Holder(r.pair.IfindexA, r.pair.NameA)
		must(t, err)
		l, err := link.NewFromID(link.ID(held.LinkID))
		must(t, err)
		return errors.Join(l.Detach(), l.Close())
	})
	w.Care()
	r.awaitGone("the steering program was taken off interface nd0")
}
