package shake

import "github.com/ndxdp/ndxdp/wire"

// levels are the encryption levels, by the index that an Exchange uses for them.
var levels = [2]wire.ShakeLevel{wire.ShakeInitial, wire.ShakeHandshake}

// Indexes of the levels of an Exchange: Initial is not encrypted, and Handshake travels in packets of generation 0.
const (
	Initial   = 0
	Handshake = 1
	NumLevels = 2
)

// Exchange is the bytes of a handshake in both directions. The zero value has none.
type Exchange struct {
	out  [NumLevels]Flight
	in   [NumLevels]Assembly
	sent [NumLevels]int // bytes of out that left
}

// Write appends bytes of this side. It returns false if the level initial would have more than most bytes, or a level more than MaxLevel.
func (x *Exchange) Write(initial, handshake []byte, most int) bool {
	return x.out[Initial].Len()+len(initial) <= most && x.out[Initial].Write(initial) && x.out[Handshake].Write(handshake)
}

// Begun reports whether this side has bytes of level initial.
func (x *Exchange) Begun() bool { return x.out[Initial].Len() > 0 }

// Told reports whether the peer has all bytes of level initial, which the keys of generation 0 follow from.
func (x *Exchange) Told() bool { return x.out[Initial].Done() }

// Arrived reports whether the peer has all bytes of this side.
func (x *Exchange) Arrived() bool { return x.out[Initial].Done() && x.out[Handshake].Done() }

// maxBurst is how many bytes of a level leave before the peer tells what arrived. Ten packets may leave on a path of which nothing is known
// (RFC 9002 §7.2).
const maxBurst = 10 * wire.MaxShakeBytes

// Unsent reports whether bytes of a level may leave that have not left.
func (x *Exchange) Unsent(level int) bool {
	f := &x.out[level]
	return x.sent[level] < f.Len() && x.sent[level]-f.Have() < maxBurst
}

// Hello returns the next part of the ClientHello that has not left, for a REQ.
func (x *Exchange) Hello() wire.HelloFragment {
	f, at := &x.out[Initial], x.sent[Initial]
	return wire.HelloFragment{Offset: uint16(at), Total: uint16(f.Len()), Bytes: f.Fragment(at, wire.MaxHelloBytes)}
}

// Fill puts the next bytes of a level that have not left into a SHAKE, none if all have left, and what this side has received. A SHAKE in
// plain does not say what was received of level handshake.
func (x *Exchange) Fill(m *wire.Shake, level int) {
	f, at := &x.out[level], x.sent[level]
	m.Level, m.HaveInitial, m.Bytes = levels[level], uint16(x.in[Initial].Have()), f.Fragment(at, wire.MaxShakeBytes)
	if len(m.Bytes) > 0 {
		m.Offset, m.Total = uint16(at), uint16(f.Len())
	}
	if level == Handshake {
		m.HaveHandshake = uint16(x.in[Handshake].Have())
	}
}

// Sent records that n bytes of a level have left.
func (x *Exchange) Sent(level, n int) { x.sent[level] += n }

// Again makes everything leave again that the peer does not have.
func (x *Exchange) Again() {
	for i := range x.out {
		x.sent[i] = x.out[i].Have()
	}
}

// TakeHello takes a part of a ClientHello. It reports whether the part brought something new.
func (x *Exchange) TakeHello(f *wire.HelloFragment) (fresh bool, d wire.DropReason) {
	return x.in[Initial].Add(int(f.Offset), int(f.Total), f.Bytes, MaxHello)
}

// Taken is what a SHAKE brought.
type Taken struct {
	Fresh bool // bytes that continue what was there
	Heard bool // the peer has received more than before
	Asks  bool // the peer should be told at once what this side has: its bytes came before, or leave a gap
	Part  bool // more bytes of the level were announced: the peer may wait for a proof of this side's address before it sends them
}

// Take takes a SHAKE, which was sealed or not. Its bytes of level initial come in plain, and its bytes of level handshake sealed.
func (x *Exchange) Take(m *wire.Shake, sealed bool) (t Taken, d wire.DropReason) {
	i, most := Initial, MaxUnproven
	if m.Level == wire.ShakeHandshake {
		i, most = Handshake, MaxLevel
	}
	had := x.out[Initial].Have() + x.out[Handshake].Have()
	if sealed != (i == Handshake) || !x.out[Initial].Acknowledge(int(m.HaveInitial)) || !x.out[Handshake].Acknowledge(int(m.HaveHandshake)) {
		return Taken{}, wire.DropShake
	}
	t.Heard = x.out[Initial].Have()+x.out[Handshake].Have() > had
	if len(m.Bytes) == 0 {
		return t, wire.DropNone
	}
	if t.Fresh, d = x.in[i].Add(int(m.Offset), int(m.Total), m.Bytes, most); d != wire.DropNone {
		return Taken{}, d
	}
	t.Asks, t.Part = !t.Fresh, !x.in[i].Whole()
	return t, wire.DropNone
}

// Give gives the bytes that arrived in order, once. If give returns false, the bytes of its level are given again by the next call.
func (x *Exchange) Give(give func(level wire.ShakeLevel, b []byte) bool) {
	for i := range x.in {
		if b := x.in[i].Next(); len(b) > 0 && give(levels[i], b) {
			x.in[i].Take()
		}
	}
}

// Erase clears and forgets all bytes.
func (x *Exchange) Erase() {
	for i := range x.out {
		x.out[i].Erase()
		x.in[i].Erase()
	}
	x.sent = [NumLevels]int{}
}

// ParamsOf returns what a side says of itself in a REQ, as it repeats it in the handshake.
func ParamsOf(h *wire.Hello) wire.Params {
	return wire.Params{
		ConnID: h.ConnID, Nonce: h.Nonce, SrcPort: h.SrcPort, DstPort: h.DstPort, UDPPort: h.UDPPort, BulkPort: h.BulkPort,
		Features: h.Features, MinVersion: h.MinVersion, MaxVersion: h.MaxVersion, Window: h.Window, MaxPacket: h.MaxPacket,
	}
}

// Agree reports whether the peer says the same of itself in the handshake (params) as it said in plain. A SHAKE of a passive peer says only
// its id and its UDP port. The rest follows from the REQ (mine), or comes in a sealed REP.
func Agree(params []byte, mine, peers wire.Params, passive bool) bool {
	var p wire.Params
	if wire.ParseParams(params, &p) != wire.DropNone {
		return false
	}
	if passive {
		q := p
		q.ConnID, q.UDPPort = peers.ConnID, peers.UDPPort
		q.PeerID, q.Nonce, q.SrcPort, q.DstPort = mine.ConnID, mine.Nonce, mine.DstPort, mine.SrcPort
		peers = q
	}
	return p == peers
}
