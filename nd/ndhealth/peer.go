package ndhealth

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// askPatience is longer than neighbour resolution takes (3 s, and more on a busy machine), so that a silent host can be told from a silent
// adapter.
const askPatience = 6 * time.Second

// nobodysPort is an ND port without a listener: the peer's adapter refuses the connection, which is an answer.
const nobodysPort = 1

// peerAnswer is the result of asking a peer.
type peerAnswer struct {
	own   bool  // its address belongs to this machine
	err   error // error of the connect; nil if a listener accepted
	asked bool
}

// askPeer connects to a peer's adapter over plain sockets, which every adapter supports, on an ND port without a listener. It
// cannot if our port is in use.
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

// ownAddress reports whether an address belongs to this machine.
func ownAddress(peer netip.Addr) bool {
	if peer.IsLoopback() {
		return true
	}
	list, _ := net.InterfaceAddrs() // without a list, the peer is asked
	for _, a := range list {
		if ip, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(ip.IP); ok && own.Unmap() == peer.Unmap().WithZone("") {
				return true
			}
		}
	}
	return false
}
