package ndhealth

import (
	"context"
	"net/netip"
	"slices"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// Running is a process with an open adapter that can be inspected (nd.AdapterConfig.Inspect), and the properties of the adapter's
// sockets.
type Running struct {
	PID      int    `json:"pid"`
	Command  string `json:"command"`
	Datapath string `json:"datapath"`
	ZeroCopy bool   `json:"zero_copy"`         // as reported by the kernel
	Copying  string `json:"copying,omitempty"` // why the sockets copy; empty over plain sockets
	Apart    string `json:"apart,omitempty"`   // why plain sockets send or receive packets one by one
	// BulkPort is the UDP port of its bulk path; 0 if it has none. NoBulk is the reason why there is none, or why it has stopped
	// working.
	BulkPort uint16 `json:"bulk_port,omitempty"`
	NoBulk   string `json:"no_bulk,omitempty"`

	vanished uint64 // packets redirected to its sockets that never arrived
}

// inspect asks all visible processes for adapters on one of the addresses in this network namespace. Processes that do not answer
// are left out.
func inspect(addrs ...netip.Addr) (list []Running) {
	here := ndinspect.Namespace()
	for _, a := range ndinspect.AskAll(context.Background(), ndinspect.Sockets(), ndinspect.Request{Peer: netip.IPv4Unspecified()}) { // leaves out all connections
		r := a.Reply
		if a.Err == nil && r.Namespace == here && slices.Contains(addrs, r.Adapter) {
			list = append(list, Running{r.PID, r.Command, r.Datapath, r.ZeroCopy, r.Copying, r.Apart, r.BulkPort, r.NoBulk, r.Stats.Drops[nd.DropVanished]})
		}
	}
	return list
}
