package sim

import (
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// usedPackets is a tap in worlds with a hostile host. On encrypted connections, each packet number is used once, and the key generation of
// used packets moves by one at most. Engines count all packets that they do not use.
type usedPackets struct {
	net     *Network
	next    provider.Tap // nil for none
	numbers map[usedNumber]bool
	newest  map[uint64]uint32 // generation of opened packets, by connection
	drops   [wire.NumDropReasons]uint64
	spoilt  uint64 // sealed packets that opened, and had wrong contents
}

type usedNumber struct {
	conn   uint64
	number uint32
}

func newUsedPackets(n *Network, next provider.Tap) *usedPackets {
	return &usedPackets{net: n, next: next, numbers: map[usedNumber]bool{}, newest: map[uint64]uint32{}}
}

// Packet implements provider.Tap.
func (u *usedPackets) Packet(p *provider.TapPacket) {
	if u.next != nil {
		u.next.Packet(p)
	}
	if p.Sent {
		return
	}
	u.drops[p.Drop]++
	h, d := wire.ParseBaseHeader(p.Pieces[0].Data)
	if d != wire.DropNone || !h.Secure() || h.Generation() == 0 || p.ConnID == 0 {
		return
	}
	if p.Drop == wire.DropNone && p.State == "shaking" {
		return // it may wait for its key
	}
	switch p.Drop {
	case wire.DropShort, wire.DropAddress, wire.DropTag, wire.DropReplay, wire.DropGeneration, wire.DropPlain, wire.DropSealed, wire.DropWrongQueue:
		return // it was not opened
	case wire.DropPath: // it may have been opened
		newest := max(u.newest[h.ConnID()], 1)
		u.newest[h.ConnID()] = max(newest, min(h.Generation(), newest+1))
		return
	case wire.DropOpcode, wire.DropLength, wire.DropAckRange, wire.DropReserved, wire.DropToken:
		u.spoilt++
	default:
	}
	u.opened(h, p.Drop == wire.DropNone)
}

// opened checks a sealed packet that an engine opened.
func (u *usedPackets) opened(h wire.BaseHeader, used bool) {
	at := usedNumber{h.ConnID(), h.Number()}
	if used && u.numbers[at] {
		u.net.Fail("packet %d for connection %016x was used again", at.number, at.conn)
	}
	u.numbers[at] = true
	newest := max(u.newest[at.conn], 1)
	if g := h.Generation(); used && (g+1 < newest || g > newest+1) {
		u.net.Fail("connection %016x uses a packet of generation %d after one of %d", at.conn, g, newest)
	}
	u.newest[at.conn] = max(newest, h.Generation())
}

// audit fails if the engines counted fewer packets that they did not use than the tap. Hosts that restarted lost their counters.
func (u *usedPackets) audit() {
	if u == nil {
		return
	}
	var s provider.Stats
	for _, h := range u.net.hosts {
		if h.life > 1 {
			return
		}
		for _, q := range h.queues {
			s.Add(q.engine.Stats())
		}
	}
	for d, n := range u.drops {
		if d := wire.DropReason(d); d != wire.DropNone && s.Drops[d] < n {
			u.net.Fail("%d packets were not used (%v), and %d are counted", n, d, s.Drops[d])
		}
	}
}
