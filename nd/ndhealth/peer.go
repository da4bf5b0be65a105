package ndhealth

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// askPatience is longer than a neighbour has to answer (3 s), so that its silence is told from that of an adapter.
const askPatience = 4 * time.Second

// nobodysPort is an ND port on which nobody listens: a peer's adapter refuses, which is an answer.
const nobodysPort = 1

// peerAnswer is what became of asking a peer.
type peerAnswer struct {
	own   bool  // its address is one of this machine
	err   error // of connecting; nil when somebody listens even there
	asked bool
}

// askPeer connects to a peer's adapter over plain sockets, which every adapter understands, on an ND port on which nobody
// listens. It cannot while somebody has our port.
func askPeer(ctx context.Context, local netip.Addr, port uint16, peer netip.Addr, free bool) *peerAnswer {
	if ownAddress(peer) {
		return &peerAnswer{own: true}
	}
	if !free {
		return &peerAnswer{}
	}
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: local, UDPPort: port, Datapath: nd.DatapathUDP, ArenaBytes: -1})
	if err != nil {
		return &peerAnswer{err: err, asked: true}
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	e, err := nd.Dial(ctx, netip.AddrPortFrom(peer, nobodysPort), nd.EndpointConfig{Adapter: a, MemoryBytes: 4096})
	if err == nil {
		err = e.Close()
	}
	return &peerAnswer{err: errors.Join(err, a.Close()), asked: true}
}

// ownAddress reports whether packets to an address stay on this machine.
func ownAddress(peer netip.Addr) bool {
	if peer.IsLoopback() {
		return true
	}
	list, _ := net.InterfaceAddrs() // without a list the peer is asked
	for _, a := range list {
		if ip, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(ip.IP); ok && own.Unmap() == peer.Unmap().WithZone("") {
				return true
			}
		}
	}
	return false
}
