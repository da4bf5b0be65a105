package sim

import "github.com/ndxdp/ndxdp/wire"

// Met counts what encrypted connections met. A run of many worlds must meet all of it.
type Met struct {
	LostFragments  uint64 // packets with parts of a TLS handshake that were lost
	RepeatedShakes uint64 // SHAKE in plain with bytes that were sent before
	LostUpdates    uint64 // packets of a new key that were lost before any packet of it arrived
	SpoiltSealed   uint64 // packets with wrong contents that a hostile host had sealed rightly
}

func (m *Met) add(o *Met) {
	m.LostFragments += o.LostFragments
	m.RepeatedShakes += o.RepeatedShakes
	m.LostUpdates += o.LostUpdates
	m.SpoiltSealed += o.SpoiltSealed
}

// meet counts what a packet on its way means for an encrypted connection.
func (n *Network) meet(from *Host, packet []byte, lost bool) {
	h, d := wire.ParseBaseHeader(packet)
	if d != wire.DropNone || !h.Secure() && !h.Control() {
		return
	}
	key := flowKey{from, h.ConnID()}
	f := n.flows[key]
	switch fragment := h.Secure() && h.Generation() == 0; {
	case !h.Secure():
		n.meetInPlain(key, packet, lost)
	case fragment && lost:
		n.met.LostFragments++
	case fragment || f == nil || h.Generation() <= f.generation:
	case !lost:
		f.generation = h.Generation()
	case h.Generation() > 1:
		n.met.LostUpdates++
	}
}

// meetInPlain counts a control packet that is not sealed, if it has a part of a TLS handshake.
func (n *Network) meetInPlain(key flowKey, packet []byte, lost bool) {
	at, d := wire.ContentOffset(packet)
	if d != wire.DropNone {
		return
	}
	msg, d := wire.ParseControl(packet, at, len(packet))
	if d != wire.DropNone {
		return
	}
	var hello wire.Hello
	var m wire.Shake
	switch {
	case msg.Opcode == wire.CtlREQ && wire.ParseHello(msg.Body, &hello) == wire.DropNone && len(hello.Fragment.Bytes) > 0:
	case msg.Opcode == wire.CtlSHAKE && wire.ParseShake(msg.Body, &m) == wire.DropNone && len(m.Bytes) > 0:
		if m.Offset < n.shaken[key] {
			n.met.RepeatedShakes++
		}
		n.shaken[key] = max(n.shaken[key], m.Offset+uint16(len(m.Bytes)))
	default:
		return
	}
	if lost {
		n.met.LostFragments++
	}
}
