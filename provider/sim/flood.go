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
	if !c.hostile() {
		return
	}
	for _, f := range []Fault{WrongKey, WrongState} {
		c.Rates[f] = rng.IntN(2) * (1 + rng.IntN(worst[f]))
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

// train returns a control packet of a connection in place of a packet, and sends more behind it. On an encrypted connection each has a
// number of its own.
func (f *forger) train(h wire.BaseHeader, path pathEnds) []byte {
	n, number := f.host.net, uint64(h.Number())
	op := floodKinds[f.rng.IntN(len(floodKinds))]
	packet := func() []byte {
		p := controlPacket(op, h.ConnID(), number)
		if h.Secure() {
			number++
			p = p[:min(len(p), wire.MinPacket-wire.TagLen)]
			p[atFlags] |= byte(wire.FlagSecure)
			wire.PutGeneration(p, h.Generation())
		}
		return f.seal(p)
	}
	first := packet()
	for i := range f.rng.IntN(trainMost) {
		p := packet()
		n.After(time.Duration(i)*time.Microsecond, func() { n.carry(f.host, path, p) })
	}
	return first
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
