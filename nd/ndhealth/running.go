package ndhealth

import (
	"context"
	"net/netip"
	"slices"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// Running is a process with an open adapter that does not forbid to look (nd.AdapterConfig.Inspect), and what became of the adapter's sockets.
type Running struct {
	PID      int    `json:"pid"`
	Command  string `json:"command"`
	Datapath string `json:"datapath"`
	ZeroCopy bool   `json:"zero_copy"`         // of its sockets, as the kernel says
	Copying  string `json:"copying,omitempty"` // why they copy; empty over plain sockets
	Apart    string `json:"apart,omitempty"`   // why plain sockets send or receive packet by packet
	// BulkPort is the UDP port of its bulk lane, 0 without one; NoBulk says why there is none, or why it carries nothing any more.
	BulkPort uint16 `json:"bulk_port,omitempty"`
	NoBulk   string `json:"no_bulk,omitempty"`

	vanished uint64 // packets that were redirected to its sockets and never came
}

// inspect asks, of this network namespace, the processes with adapters that can be seen for those on one of the addresses. A process that does not answer is left out.
func inspect(addrs ...netip.Addr) (list []Running) {
	here := ndinspect.Namespace()
	for _, a := range ndinspect.AskAll(context.Background(), ndinspect.Sockets(), ndinspect.Request{Peer: netip.IPv4Unspecified()}) { // no connections are wanted
		r := a.Reply
		if a.Err == nil && r.Namespace == here && slices.Contains(addrs, r.Adapter) {
			list = append(list, Running{r.PID, r.Command, r.Datapath, r.ZeroCopy, r.Copying, r.Apart, r.BulkPort, r.NoBulk, r.Stats.Drops[nd.DropVanished]})
		}
	}
	return list
}
