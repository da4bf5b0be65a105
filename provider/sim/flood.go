package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// This file makes floods of control packets, which an engine answers but mostly does not process further.

// drawFloods draws from a generator of its own, so that it does not change what a seed draws otherwise.
func (c *Conditions) drawFloods(rng *rand.Rand) {
	c.Rates[DaySet] = rng.IntN(2) * (1 + rng.IntN(worst[DaySet]))
	if rate := rng.IntN(2) * (1 + rng.IntN(worst[Flood])); c.hostile() {
		c.Rates[Flood] = rate
	}
}

// floodKinds are the control messages of floods; zero is a packet without one.
var floodKinds = [...]wire.Opcode{0, wire.CtlPing, wire.CtlProbe, wire.CtlChallenge}

// controlPacket returns an intact control packet for a connection.
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

// trainMost is the largest number of packets in a train. They leave a microsecond apart.
const trainMost = 100

// train replaces a packet by a control packet of the same connection, and sends more behind it.
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

// stampDoubt is how long arrival times are unknown after the wall clock of a host was set.
const stampDoubt = time.Second

// SetDay sets the host's wall clock.
func (h *Host) SetDay() {
	if h.cfg.Stamps {
		h.net.Happened[DaySet]++
		h.net.trace.note(h.net.now, "day set", h.name)
		h.unstamped = h.net.now.Add(stampDoubt)
	}
}
