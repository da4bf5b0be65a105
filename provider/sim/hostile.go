package sim

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/wire"
)

// forger changes what a hostile host's engine sends. It knows what a peer knows: connection ids, sequence numbers, tokens, the
// checksum, and its keys of encrypted connections. Its packets are intact but may be wrong in any other way.
type forger struct {
	host *Host
	rng  *rand.Rand
	keys keyring
	said map[uint64]*[wire.NumSpaces]uint32 // newest full message numbers, by connection
	past []forged                           // some earlier packets
}

func newForger(h *Host, rng *rand.Rand) *forger {
	return &forger{host: h, rng: rng, keys: keyring{of: map[chainKey]*chain{}}, said: map[uint64]*[wire.NumSpaces]uint32{}}
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
	f.note(packet)
	for kind := firstHostile; kind < numFaults; kind++ {
		if !chance(f.rng, n.Rates[kind]) {
			continue
		}
		p, to, ok := f.spoil(kind, f.open(packet), path)
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

// spoil changes an opened packet. It returns false if the kind of change does not apply to the packet.
func (f *forger) spoil(kind Fault, p []byte, path pathEnds) (spoilt []byte, to pathEnds, ok bool) {
	h, _ := wire.ParseBaseHeader(p)
	at, d := wire.ContentOffset(p)
	if d != wire.DropNone {
		return p, path, false
	}
	inside, op := p[at:], wire.Opcode(0)
	if len(inside) > 0 && !h.Piece() {
		op = wire.Opcode(inside[0])
	}
	switch kind {
	case WrongToken:
		if h.Control() || op != wire.OpWrite && op != wire.OpReadReq {
			return p, path, false
		}
		f.change(inside[atToken:][:4])
	case Overrun:
		if h.Control() {
			return p, path, false
		}
		f.overrun(p, op, inside)
	case Replay:
		return f.replay(p, path)
	case Flood:
		return f.train(h, path), path, true
	case OtherLane:
		to, ok = f.host.toLane(path)
		return f.seal(p), to, ok
	case BadLength:
		if f.rng.IntN(4) == 0 || len(inside) == 0 {
			f.change(p[atMessage:][:2])
		} else {
			f.change(inside[atLength:][:2])
		}
	case ForgedAck:
		if p[atFlags]&byte(wire.FlagAck) == 0 {
			return p, path, false
		}
		if f.rng.IntN(2) == 0 {
			f.change(p[wire.BaseHeaderLen:at])
			break
		}
		largest := p[wire.BaseHeaderLen:][:4]
		binary.BigEndian.PutUint32(largest, binary.BigEndian.Uint32(largest)+f.rng.Uint32N(300))
	case WrongKey:
		if !h.Secure() {
			return p, path, false
		}
		wire.PutGeneration(p, f.otherGeneration(h.Generation()))
	case WrongState:
		p = f.outOfState(h)
	default:
		f.change(p[1+f.rng.IntN(len(p)-1):][:1])
	}
	return f.seal(p), path, true
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
func (f *forger) replay(present []byte, path pathEnds) (p []byte, to pathEnds, ok bool) {
	if len(f.past) == 0 {
		return present, path, false
	}
	old := f.past[f.rng.IntN(len(f.past))]
	if old.path == path && old.packet[0]&0xf != 0 && present[0]&0xf != 0 && f.rng.IntN(2) == 0 {
		p = f.open(old.packet)
		copy(p[atNumber:wire.CRCOffset], present[atNumber:])
		return f.seal(p), path, true
	}
	return append([]byte(nil), old.packet...), old.path, true
}

// otherGeneration returns a wrong key generation in place of g: the next generation too early, an earlier generation, or a far later one.
func (f *forger) otherGeneration(g uint32) uint32 {
	switch f.rng.IntN(4) {
	case 0:
		return g + 1
	case 1:
		return g - 1
	case 2:
		return f.rng.Uint32N(g + 1)
	default:
		return g + 2 + f.rng.Uint32N(1<<f.rng.IntN(12))
	}
}

// stateKinds are control messages with the lengths of their bodies.
var stateKinds = [...]struct {
	op   wire.Opcode
	body int
}{
	{wire.CtlPing, 8},
	{wire.CtlPong, 4},
	{wire.CtlProbeAck, 8},
	{wire.CtlChallenge, 8},
	{wire.CtlResponse, 8},
	{wire.CtlREQ, 60},
	{wire.CtlRETRY, 16},
	{wire.CtlPEND, 0},
	{wire.CtlREP, 60},
	{wire.CtlREPACK, 0},
	{wire.CtlRTU, 4},
	{wire.CtlREJ, 4},
	{wire.CtlDREQ, 0},
	{wire.CtlDREP, 0},
	{wire.CtlRST, 32},
	{wire.CtlSHAKE, 28},
}

// outOfState returns a control packet of any kind in place of a packet, with any body, and sometimes with the first keys.
func (f *forger) outOfState(h wire.BaseHeader) []byte {
	kind := stateKinds[f.rng.IntN(len(stateKinds))]
	fields := wire.BaseFields{ConnID: h.ConnID(), Number: uint64(h.Number())}
	generation := h.Generation()
	if h.Secure() {
		fields.Flags, fields.Message = wire.FlagSecure, uint32(wire.DefaultPort)
		generation *= min(f.rng.Uint32N(4), 1)
	}
	p := make([]byte, wire.BaseHeaderLen+wire.ControlHeaderLen+kind.body)
	wire.PutBaseHeader(p, &fields)
	wire.PutGeneration(p, generation)
	wire.PutControl(p[wire.BaseHeaderLen:], kind.op, uint8(f.rng.IntN(2)), kind.body)
	body := p[wire.BaseHeaderLen+wire.ControlHeaderLen:]
	for i := range body {
		body[i] = byte(f.rng.Uint32() & f.rng.Uint32())
	}
	return p
}

// note follows the message numbers of the engine, of which packets have the lower half.
func (f *forger) note(packet []byte) {
	h := wire.BaseHeader(packet[:wire.BaseHeaderLen])
	if h.Control() {
		return
	}
	said := f.said[h.ConnID()]
	if said == nil {
		said = new([wire.NumSpaces]uint32)
		f.said[h.ConnID()] = said
	}
	said[h.Space()] = wire.ExpandMessage(h.Message(), said[h.Space()])
}

// message returns the full message number of a packet, zero for a control packet.
func (f *forger) message(h wire.BaseHeader) uint32 {
	if said := f.said[h.ConnID()]; said != nil && !h.Control() {
		return wire.ExpandMessage(h.Message(), said[h.Space()])
	}
	return 0
}

// open returns a copy of a packet, without its seal if it has one. A packet of a handshake that is over has no key any more.
func (f *forger) open(packet []byte) []byte {
	h := wire.BaseHeader(packet[:wire.BaseHeaderLen])
	if h.Secure() {
		if plain, ok := f.keys.open(packet, f.message(h)); ok {
			return plain
		}
	}
	return append([]byte(nil), packet...)
}

// seal seals a packet again, or corrects its checksum, for the full numbers nearest to what the connection sent. A world has fewer than 2^31
// packets.
func (f *forger) seal(p []byte) []byte {
	h := wire.BaseHeader(p[:wire.BaseHeaderLen])
	if h.Secure() {
		return f.keys.seal(p, f.message(h))
	}
	wire.PutCRC(p, wire.SumFirst(uint64(h.Number()), f.message(h), p))
	return p
}
