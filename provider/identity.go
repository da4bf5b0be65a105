package provider

import "github.com/ndxdp/ndxdp/wire"

// identity is who the two ends of a connection are. It is fixed once both ids are known, but for the peer's UDP port (path.go).
type identity struct {
	id, peerID     uint64
	nonce          uint64        // of the REQ
	slot           uint32        // in the connection table
	local, remote  wire.Endpoint // addresses and UDP ports: ours as the peer sees it, the peer's as we see it
	localND, peerN uint16        // ND ports
	peerPort       uint16        // the UDP port that the peer receives on; before its REP arrived, the destination port of REQs
	peerToken      [wire.ResetTokenLen]byte
	active         bool   // we sent the REQ
	path           Path   // between them, of the engine's link
	firstNumber    uint32 // of our packets
}

// tuple identifies a connection by its ND addresses and ports.
type tuple struct{ local, remote addrPort }

// tuple names the connection by its ND endpoints.
func (i *identity) tuple() tuple {
	return tuple{addrPort{IP: i.local.IP, Port: i.localND}, addrPort{IP: i.remote.IP, Port: i.peerN}}
}

// destination returns where packets of the connection go.
func (i *identity) destination() wire.Endpoint {
	return wire.Endpoint{IP: i.remote.IP, Port: i.peerPort}
}

// peerKey names a connection as its peer does.
type peerKey struct {
	ip [16]byte
	id uint64
}

func (i *identity) peerKey() peerKey { return peerKey{i.remote.IP, i.peerID} }

// asked is an unanswered REQ as even the shortest quote names it: where it went, and the UDP port that it came from.
type asked struct {
	to   [16]byte
	from uint16
}

func (i *identity) asked() asked { return asked{i.remote.IP, i.local.Port} }

// isAnswer reports whether a REP answers our REQ.
func (i *identity) isAnswer(h *wire.Hello) bool { return usable(h) && h.Nonce == i.nonce }

// quoted reports whether an ICMP error quotes our REQ.
func (i *identity) quoted(q *Quote, quote *wire.Quote) bool {
	return i.active && i.remote.IP == q.To.IP && i.local.IP == q.From.IP &&
		(quote.HasNonce && quote.Nonce == i.nonce || !quote.HasNonce && i.local.Port == q.From.Port)
}
