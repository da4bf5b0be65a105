package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// This file makes floods of control packets, which an engine answers and otherwise has little to do with.

// drawFloods draws what changes nothing else of a world: a world without it is what its seed is.
func (c *Conditions) drawFloods(rng *rand.Rand) {
	c.Rates[DaySet] = rng.IntN(2) * (1 + rng.IntN(worst[DaySet]))
	if rate := rng.IntN(2) * (1 + rng.IntN(worst[Flood])); c.hostile() {
		c.Rates[Flood] = rate
	}
}

// floodKinds are the control messages of floods; zero is a packet without one.
var floodKinds = [...]wire.Opcode{0, wire.CtlPing, wire.CtlProbe, wire.CtlChallenge}

// controlPacket is an intact control packet for a connection.
func controlPacket(op wire.Opcode, conn uint64, number uint64) []byte {
	var body []byte
	size := 0
	switch op {
	case wire.CtlPing:
		body = (&wire.Ping{Nonce: uint32(number), Port: 1}).Append(nil)
	case wire.CtlProbe:
		size = wire.MinPacket
		body = (&wire.Probe{Nonce: uint32(number), Size: wire.MinPacket}).Append(nil)
	case wire.CtlChallenge:
		body = binary.BigEndian.AppendUint64(nil, number)
	default:
	}
	p := make([]byte, wire.BaseHeaderLen+wire.ControlHeaderLen, wire.MinPacket)
	wire.PutBaseHeader(p, &wire.BaseFields{ConnID: conn, Number: number})
	if wire.PutControl(p[wire.BaseHeaderLen:], op, 0, len(body)); op == 0 {
		p = p[:wire.BaseHeaderLen]
	}
	p = append(p, body...)
	p = p[:max(len(p), size)]
	wire.PutCRC(p, wire.SumFirst(number, 0, p))
	return p
}

// trainMost is how many packets a train has at most; they leave a microsecond apart.
const trainMost = 100

// train sends control packets of the connection of a packet behind it, and one in its place.
func (f *forger) train(packet *[]byte, path pathEnds) (to pathEnds, ok bool) {
	h, n := wire.BaseHeader((*packet)[:wire.BaseHeaderLen]), f.host.net
	op, number := floodKinds[f.rng.IntN(len(floodKinds))], uint64(h.Number())
	for i := range f.rng.IntN(trainMost) {
		p := controlPacket(op, h.ConnID(), number)
		n.After(time.Duration(i)*time.Microsecond, func() { n.carry(f.host, path, p) })
	}
	*packet = controlPacket(op, h.ConnID(), number)
	return path, true
}

// stampDoubt is for how long a host does not know when packets came after its time of day was set.
const stampDoubt = time.Second

// SetDay sets the host's time of day.
func (h *Host) SetDay() {
	if h.cfg.Stamps {
		h.net.Happened[DaySet]++
		h.net.trace.note(h.net.now, "day set", h.name)
		h.unstamped = h.net.now.Add(stampDoubt)
	}
}
