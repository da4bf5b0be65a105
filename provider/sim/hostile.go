package sim

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/wire"
)

// forger changes what a hostile host's engine sends. It knows what a peer knows: connection ids, sequence numbers, tokens, the
// checksum. Its packets are intact but may be wrong in any other way.
type forger struct {
	host *Host
	rng  *rand.Rand
	past []forged // some earlier packets
}

type forged struct {
	path   pathEnds
	packet []byte
}

// remembered bounds forger.past.
const remembered = 64

// send sends a packet of the engine. It may send other packets before it, or instead.
func (f *forger) send(path pathEnds, packet []byte) {
	n := f.host.net
	for kind := firstHostile; kind < numFaults; kind++ {
		if !chance(f.rng, n.Rates[kind]) {
			continue
		}
		p := append([]byte(nil), packet...)
		to, ok := f.spoil(kind, &p, path)
		if !ok {
			continue
		}
		n.Happened[kind]++
		n.trace.note(n.now, kind.String(), f.host.name)
		n.carry(f.host, to, p)
		if f.rng.IntN(2) == 0 {
			return
		}
	}
	if kept := (forged{path, append([]byte(nil), packet...)}); len(f.past) < remembered {
		f.past = append(f.past, kept)
	} else if f.rng.IntN(8) == 0 {
		f.past[f.rng.IntN(remembered)] = kept
	}
	n.carry(f.host, path, packet)
}

// Offsets in a packet, and offsets behind the beginning of its contents (PROTOCOL §3, §4, §5).
const (
	atFlags   = 1
	atMessage = 2
	atNumber  = 4
	atPlace   = 16
	atLength  = 2
	atToken   = 4  // of WRITE and READ_REQ
	atAddress = 8  // of the same
	atRead    = 16 // length of a READ
	atTotal   = 8  // of a SEND
	atRespond = 4  // of a READ_RESP
)

// spoil changes a packet. It returns false if the kind of change does not apply to the packet.
func (f *forger) spoil(kind Fault, packet *[]byte, path pathEnds) (to pathEnds, ok bool) {
	p := *packet
	h, _ := wire.ParseBaseHeader(p)
	at, d := wire.BaseHeaderLen, wire.DropNone
	if !h.Secure() { // otherwise there is nothing to read behind the header
		at, d = wire.ContentOffset(p)
	}
	if d != wire.DropNone {
		return path, false
	}
	inside, op := p[at:], wire.Opcode(0)
	if len(inside) > 0 && !h.Piece() && !h.Secure() {
		op = wire.Opcode(inside[0])
	}
	switch kind {
	case WrongToken:
		if h.Control() || op != wire.OpWrite && op != wire.OpReadReq {
			return path, false
		}
		f.change(inside[atToken:][:4])
	case Overrun:
		if h.Control() {
			return path, false
		}
		f.overrun(p, op, inside)
	case Replay:
		return f.replay(packet, path)
	case Flood:
		return f.train(packet, path)
	case OtherLane:
		return f.host.toLane(path)
	case BadLength:
		if f.rng.IntN(4) == 0 || len(inside) == 0 {
			f.change(p[atMessage:][:2])
		} else {
			f.change(inside[atLength:][:2])
		}
	case ForgedAck:
		if p[atFlags]&byte(wire.FlagAck) == 0 || h.Secure() {
			return path, false
		}
		if f.rng.IntN(2) == 0 {
			f.change(p[wire.BaseHeaderLen:at])
			break
		}
		largest := p[wire.BaseHeaderLen:][:4]
		binary.BigEndian.PutUint32(largest, binary.BigEndian.Uint32(largest)+f.rng.Uint32N(300))
	default:
		f.change(p[1+f.rng.IntN(len(p)-1):][:1])
	}
	f.seal(p)
	return path, true
}

// change flips some bits of a field.
func (f *forger) change(b []byte) {
	for range 1 + f.rng.IntN(4) {
		bit := f.rng.IntN(8 * len(b))
		b[bit/8] ^= 1 << (bit % 8)
	}
}

// overrun makes an operation exceed its bounds.
func (f *forger) overrun(packet []byte, op wire.Opcode, p []byte) {
	beyond := uint64(1) << f.rng.IntN(64)
	switch op {
	case wire.OpWrite, wire.OpReadReq:
		if op == wire.OpReadReq && f.rng.IntN(2) == 0 {
			binary.BigEndian.PutUint32(p[atRead:], 1<<f.rng.IntN(31))
			return
		}
		at := binary.BigEndian.Uint64(p[atAddress:])
		if f.rng.IntN(2) == 0 {
			beyond = -beyond
		}
		binary.BigEndian.PutUint64(p[atAddress:], at+beyond)
	case wire.OpSend, wire.OpReadResp:
		at := p[atTotal:]
		if op == wire.OpReadResp {
			at = p[atRespond:]
		}
		if f.rng.IntN(2) == 0 {
			at = packet[atPlace:]
		}
		binary.BigEndian.PutUint32(at, binary.BigEndian.Uint32(at)+uint32(beyond>>32|1))
	default: // a whole segment, or the rest of a message
		binary.BigEndian.PutUint32(packet[atPlace:], binary.BigEndian.Uint32(packet[atPlace:])+uint32(beyond>>32|1))
	}
}

// replay repeats an earlier packet: unchanged, or its operations with the present packet number.
func (f *forger) replay(packet *[]byte, path pathEnds) (to pathEnds, ok bool) {
	if len(f.past) == 0 {
		return path, false
	}
	old := f.past[f.rng.IntN(len(f.past))]
	p := append([]byte(nil), old.packet...)
	if old.path == path && p[0]&0xf != 0 && (*packet)[0]&0xf != 0 && f.rng.IntN(2) == 0 {
		copy(p[atNumber:wire.CRCOffset], (*packet)[atNumber:])
		f.seal(p)
	}
	*packet = p
	return old.path, true
}

// seal corrects the checksum, for the full numbers nearest to what the connection sent. A world has fewer than 2^31 packets. A sealed packet
// has none.
func (f *forger) seal(p []byte) {
	h := wire.BaseHeader(p[:wire.BaseHeaderLen])
	if h.Secure() {
		return
	}
	message := uint32(0)
	if of := f.host.net.flows[flowKey{f.host, h.ConnID()}]; of != nil && !h.Control() {
		message = wire.ExpandMessage(h.Message(), of.sent[h.Space()].message)
	}
	wire.PutCRC(p, wire.SumFirst(uint64(h.Number()), message, p))
}
