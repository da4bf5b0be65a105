package datapath

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/xdp"
)

// A lease of a broker must be for the requested interface, and must not have more memory than an adapter may have.
func TestMapLeaseRefusesOthers(t *testing.T) {
	right := broker.Grant{Ifindex: 3, MAC: [6]byte{2}, Datapath: "generic", Queues: 2, RxFrames: 1024, TxFrames: 1024}
	const frames = plan.MaxFrameMemory / xdp.FrameSize
	for name, change := range map[string]func(g *broker.Grant){
		"another interface": func(g *broker.Grant) { g.Ifindex = 4 },
		"another MAC":       func(g *broker.Grant) { g.MAC[5] = 1 },
		"unknown datapath":  func(g *broker.Grant) { g.Datapath = "fast" },
		"too many frames":   func(g *broker.Grant) { g.RxFrames = frames/2 - 1024 + 1 },
		"too much memory":   func(g *broker.Grant) { g.Arena = broker.MaxArena + 1 },
	} {
		g := right
		change(&g)
		const memory = 1 << 20 // not a descriptor; it must not be used
		d := &xdpDevice{index: 3, mac: [6]byte{2}, lease: &broker.Lease{Grant: g, Memory: memory}}
		if err := d.mapLease(); err == nil || d.lease.Memory != memory {
			t.Errorf("%s: %v, or the memory was taken", name, err)
		}
	}
}
