package ndhealth

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// askPatience is longer than a neighbour has to answer (3 s), so that its silence is told from that of an adapter.
const askPatience = 4 * time.Second

// refusalPatience is how long a refusal may take after everything else was tried.
const refusalPatience = 50 * time.Millisecond

// nobodysPort is an ND port on which nobody listens: a peer's adapter refuses, which is an answer.
const nobodysPort = 1

// peerAnswer is what became of asking a peer.
type peerAnswer struct {
	err    error // of connecting; nil when somebody listens even there
	closed bool  // the peer's kernel says that nobody has the UDP port
	asked  bool
}

// askPeer connects to a peer's adapter over plain sockets, which every adapter understands, on an ND port on which nobody
// listens. It cannot while somebody has our port.
func askPeer(ctx context.Context, local netip.Addr, port uint16, peer netip.Addr, free bool) *peerAnswer {
	if !free {
		return &peerAnswer{}
	}
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: local, UDPPort: port, Datapath: nd.DatapathUDP, ArenaBytes: -1})
	if err != nil {
		return &peerAnswer{err: err, asked: true}
	}
	// Before connecting, whose repetitions use up what the peer's kernel allows itself of refusals (net.ipv4.icmp_ratelimit).
	knock := knockAt(local, netip.AddrPortFrom(peer, port))
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	e, err := nd.Dial(ctx, netip.AddrPortFrom(peer, nobodysPort), nd.EndpointConfig{Adapter: a, MemoryBytes: 4096})
	if err == nil {
		err = e.Close()
	}
	return &peerAnswer{err: errors.Join(err, a.Close()), asked: true, closed: refused(knock) && err != nil}
}

// knockAt sends a datagram that is no ND packet, from a socket that hears of a refusal; nil when it cannot be sent.
func knockAt(local netip.Addr, to netip.AddrPort) *net.UDPConn {
	s, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)), net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil
	}
	if _, err := s.Write([]byte{0}); err != nil {
		s.Close()
		return nil
	}
	return s
}

// refused says whether the peer's kernel refused the datagram because nobody has the port. The refusal waits in the socket.
func refused(s *net.UDPConn) bool {
	if s == nil {
		return false
	}
	defer s.Close()
	if s.SetReadDeadline(time.Now().Add(refusalPatience)) != nil {
		return false
	}
	_, err := s.Read(make([]byte, 1))
	return errors.Is(err, syscall.ECONNREFUSED)
}
