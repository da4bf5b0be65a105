package datapath

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf/link"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// TestCare: every while the ways of all paths are mended, also of one whose connection moved between ports while its way changed, and of
// one to a peer that called by way of somebody who is not on the route.
func TestCare(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, pair: netlabtest.Pair(t, netlab.PairConfig{})}
	r.inA(func() (err error) {
		r.device, err = Open(Config{Address: r.pair.AddrA.Addr(), Rung: RungGeneric})
		return err
	})
	t.Cleanup(func() { must(t, r.device.Close()) })
	d := r.device.(*Datapath)
	rng := rand.New(rand.NewPCG(1, 1))
	engine := provider.NewGroup(provider.Config{}, []provider.Link{d.queues[0]}, provider.NewMemory(rng), rng)[0]
	w := d.watch // nobody else runs it
	w.device, w.unseen, w.own = d, d.pathsMade.Load, func(_ int, f func(*provider.Engine)) { f(engine) }
	w.resync()

	peer := r.pair.AddrB.Addr()
	out, in := r.connect(peer), r.answer(peer, macX)
	d.queues[0].paths[out].header.SetDestination(macY)
	for range 2*pathsAtOnce + 1 { // more than are looked at in one go
		r.answer(peer, macY)
	}
	w.care()
	for p := out; p <= in+2*pathsAtOnce+1; p++ {
		if got := d.queues[0].Hop(p); got != [6]byte(r.pair.MACB) {
			t.Fatalf("path %d goes to %x, want %x", p, got, r.pair.MACB)
		}
	}
	record := engine.FlightRecord()
	if n := len(record.Events); n == 0 || record.Events[n-1].From != uint32(provider.InterfaceRoute) {
		t.Errorf("%+v", record.Events)
	}
	for p := out; p <= in+2*pathsAtOnce+1; p++ {
		d.queues[0].Forget(p)
	}
	d.state.stale() // as long ago as need be
	w.care()
	if hops := d.state.hopsInUse(); len(hops) != 0 {
		t.Errorf("%v are in use without a path", hops)
	}
}

// TestSteeringIsTakenAway: without its program an adapter hears nothing, and no event says so. It finds out and ends.
func TestSteeringIsTakenAway(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, pair: netlabtest.Pair(t, netlab.PairConfig{}), gone: make(chan error, 2)}
	r.inA(func() (err error) {
		r.device, err = Open(Config{Address: r.pair.AddrA.Addr(), Rung: RungGeneric})
		return err
	})
	t.Cleanup(func() { must(t, r.device.Close()) })
	d := r.device.(*Datapath)
	rng := rand.New(rand.NewPCG(1, 1))
	r.engines = append(r.engines, provider.NewGroup(provider.Config{}, []provider.Link{d.queues[0]}, provider.NewMemory(rng), rng)[0])
	w := d.watch // nobody else runs it
	w.device, w.gone, w.own = d, func(cause error) { r.gone <- cause }, func(_ int, f func(*provider.Engine)) { f(r.engines[0]) }
	w.care()
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
	w.care()
	r.awaitGone("the steering program was taken off interface nd0")
}
