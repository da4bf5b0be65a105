//go:build !race

package sim

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// floodEvery is the interval between packets of a flood: twice as many packets as full packets of 1 Gb/s.
const floodEvery = 5 * time.Microsecond

// flood sends control packets to the sink, past the bottleneck, with the source address of a host. The packets belong to the host's
// connection with the sink. If follows is true, each has the next packet number, and otherwise the one before.
func (f *fleet) flood(from *Host, path pathEnds, op wire.Opcode, follows bool) (sent *int) {
	sent = new(int)
	number := uint64(0)
	var next func()
	next = func() {
		for key, flow := range f.Network.flows {
			if key.host != from {
				continue
			}
			if number = max(number, uint64(flow.number)); follows {
				number++
			}
			f.sink.arrive(path, controlPacket(op, key.to, number), false)
			*sent++
		}
		f.After(floodEvery, next)
	}
	next()
	return sent
}

// A peer may flood its own connection with control packets, and an attacker any connection whose id it knows. A flow beside the
// flood keeps most of its goodput, and no packet waits for long. This holds if the attacked side sends the data, over the link that
// its answers use, and if it receives them.
func TestFloodOfControlPackets(t *testing.T) {
	for _, kind := range []provider.RequestKind{provider.KindWrite, provider.KindRead} {
		for _, op := range floodKinds {
			for _, own := range []bool{false, true} {
				flows := []*Bulk{{Kind: kind, Size: 32 << 10, Depth: 16}, {Kind: provider.KindWrite, Size: 64, Depth: 1, Limit: 10}}
				f := newFleet(t, Conditions{Delay: testDelay}, Bottleneck{Rate: testRate, Queue: 500e3}, flows...)
				if kind == provider.KindRead {
					f.hosts[1].Narrow(&Bottleneck{Rate: testRate, Queue: 500e3})
				}
				paths := map[*Host]pathEnds{}
				f.watch = func(from *Host, ends pathEnds) { paths[from] = ends }
				for _, flow := range flows {
					flow.Start(0)
				}
				f.pass(t, 10*time.Millisecond)
				from := f.hosts[1]
				if own {
					from = f.hosts[2]
				}
				sent := f.flood(from, paths[from], op, own)
				f.pass(t, 20*time.Millisecond)
				flows[0].Forget()
				waited := 0
				for range 30 {
					f.pass(t, time.Millisecond)
					waited = max(waited, len(f.sink.queues[0].inbox))
				}
				s := f.sink.Engine.Stats()
				if got := flows[0].Done * flows[0].Size * 8 * 33; got < testRate/2 || waited > 256 || s.Lost != 0 || s.Connections != 2 || *sent < 9000 {
					t.Errorf("requests of kind %d beside %d packets of %v, by a connection of its own %v: %d Mb/s, %d packets wait, %d connections of which %d were lost; dropped %v",
						kind, *sent, op, own, got/1e6, waited, s.Connections, s.Lost, s.Drops)
				}
			}
		}
	}
}
