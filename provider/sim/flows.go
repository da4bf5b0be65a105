package sim

import (
	"github.com/ndxdp/ndxdp/wire"
)

// A flow is what one connection sent. It is known by its sender and by the receiver's connection id, because ports may change.
type flowKey struct {
	host *Host
	to   uint64
}

type flow struct {
	number uint32 // of the newest packet
	sent   [wire.NumSpaces]wire.PSN
	begun  [wire.NumSpaces]bool
}

// watchSent checks that every transmission of a connection has its own packet number, larger than those before, and that no PSN is
// skipped (PROTOCOL §3.1).
func (n *Network) watchSent(from *Host, packet []byte) {
	h, d := wire.ParseBaseHeader(packet)
	if d != wire.DropNone || h.OpCount() == 0 {
		return
	}
	key := flowKey{from, h.ConnID()}
	f := n.flows[key]
	if f == nil {
		f = &flow{number: h.Number() - 1}
		n.flows[key] = f
	}
	if int32(h.Number()-f.number) <= 0 {
		n.Fail("%s sends packet number %d after %d", from.name, h.Number(), f.number)
	}
	f.number = h.Number()
	space := h.Space()
	if psn := h.PSN(); !f.begun[space] || f.sent[space].Less(psn) {
		if f.begun[space] && psn.Sub(f.sent[space]) != 1 {
			n.Fail("%s skips from PSN %d to %d", from.name, f.sent[space], psn)
		}
		f.sent[space], f.begun[space] = psn, true
	}
}
