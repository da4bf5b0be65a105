package sim

import (
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// A flow is what one connection sent in one space. It is known by its sender and the sender's UDP port, which both
// directions show: packets to a connection carry its id, and the port follows from the id.
type flowKey struct {
	host  *Host
	port  uint16
	space wire.Space
}

type flow struct {
	sent, acked wire.PSN
	to          uint64 // the receiver's connection id
	shared      bool   // two connections have this port: nothing can be said
}

// watchSent checks that no sender has more packets out than the receiver holds (PROTOCOL §7.1).
func (n *Network) watchSent(from *Host, path pathEnds, packet []byte) {
	h, d := wire.ParseBaseHeader(packet)
	if d != wire.DropNone || h.OpCount() == 0 {
		return
	}
	key := flowKey{from, path.local.Port, h.Space()}
	f := n.flows[key]
	if f == nil {
		n.flows[key] = &flow{sent: h.PSN(), acked: h.PSN(), to: h.ConnID()}
		return
	}
	if f.shared = f.shared || f.to != h.ConnID(); f.shared {
		return
	}
	if f.sent.Less(h.PSN()) {
		if h.PSN().Sub(f.sent) != 1 {
			n.Fail("%s skips from PSN %d to %d", from.name, f.sent, h.PSN())
		}
		f.sent = h.PSN()
	}
	if out := f.sent.Sub(f.acked) + 1; out > provider.Window {
		n.Fail("%s has %d packets out in the %s space", from.name, out, h.Space())
	}
}

// watchArrived notes acknowledgements that reached a sender.
func (n *Network) watchArrived(to *Host, packet []byte) {
	h, d := wire.ParseBaseHeader(packet)
	if d != wire.DropNone || h.ConnID() == 0 || h.OpCount() == 0 && packet[wire.ControlOffset] != byte(wire.CtlAck) {
		return
	}
	for _, space := range []wire.Space{wire.RequestSpace, wire.ResponseSpace} {
		if f := n.flows[flowKey{to, wire.SourcePort(h.ConnID()), space}]; f != nil {
			if next := h.NextPSN(space); f.acked.Less(next) && next.Sub(f.sent) <= 1 {
				f.acked = next
			}
		}
	}
}
