package ndhealth

import (
	"net/netip"
	"slices"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// inspected is a process with an adapter on the interface.
type inspected struct {
	pid      int
	command  string
	vanished uint64 // packets that were redirected to its sockets and never came
}

// inspect asks the processes that called ndinspect.Serve for adapters on one of the addresses. Who does not answer is left out.
func inspect(addrs []netip.Addr) (list []inspected) {
	for _, path := range ndinspect.Sockets() {
		c, err := ndinspect.Dial(path)
		if err != nil {
			continue
		}
		r, err := c.Ask(ndinspect.Request{Peer: netip.IPv4Unspecified()}) // no connections are wanted
		if err == nil && slices.Contains(addrs, r.Adapter) {
			list = append(list, inspected{r.PID, r.Command, r.Stats.Drops[nd.DropVanished]})
		}
		c.Close()
	}
	return list
}
