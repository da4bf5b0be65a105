package provider

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// otherAdapter is a PortSpace with one other adapter, which has one port.
type otherAdapter struct {
	port   uint16
	answer HandOver
	handed int
}

func (o *otherAdapter) Mark(uint16) bool { return true }

func (o *otherAdapter) Unmark(uint16) {}

func (o *otherAdapter) Claim(port uint16) Outcome {
	if port == o.port {
		return OutcomeSharingViolation
	}
	return OutcomeSuccess
}
func (o *otherAdapter) Release(uint16) {}

func (o *otherAdapter) HandOver(_ *RxPacket, port uint16) HandOver {
	if port != o.port {
		return HandOverNobody
	}
	o.handed++
	return o.answer
}

// besides is a world whose listening side shares its address with another adapter.
func besides(o *otherAdapter) (w *world, answers *[]wire.Opcode) {
	w = newWorld(newLanes(), 0, Config{PortSpace: o})
	w.listen()
	answers = new([]wire.Opcode)
	w.lane[1].carry = func(f flight) { *answers = append(*answers, opcode(f.data)) }
	return w, answers
}

// requestTo is a REQ as it arrives at the well-known port.
func requestTo(port uint16, id uint64) *RxPacket {
	f := asking(address(1), &wire.Hello{
		ConnID: id, Nonce: 7, SrcPort: 5, DstPort: port, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: 1408, Window: 16,
	})
	b := f.bytes()
	p := &RxPacket{From: f.from, To: wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}, N: 1, Len: len(b)}
	p.Frags[0].Data = b
	return p
}

// A REQ for an ND port of another adapter is handed over to that adapter once. If that fails, the answer depends on the failure
// (PROTOCOL §7.8).
func TestRequestsOfOthersAreHandedOver(t *testing.T) {
	const other, nobody = 7001, 7002
	for name, c := range map[string]struct {
		port   uint16
		answer HandOver
		change func(*RxPacket)
		handed int
		reply  []wire.Opcode
		drop   wire.DropReason
	}{
		"taken":                  {other, HandOverDone, nil, 1, nil, wire.DropNone},
		"dropped":                {other, HandOverDropped, nil, 1, nil, wire.DropBacklog},
		"refused":                {other, HandOverRefused, nil, 1, []wire.Opcode{wire.CtlREJ}, wire.DropBacklog},
		"of nobody":              {nobody, HandOverDone, nil, 0, []wire.Opcode{wire.CtlREJ}, wire.DropNoListener},
		"handed over to us":      {other, HandOverDone, func(p *RxPacket) { p.Handed = true }, 0, []wire.Opcode{wire.CtlREJ}, wire.DropNoListener},
		"not to well-known port": {other, HandOverDone, func(p *RxPacket) { p.To.Port++ }, 0, []wire.Opcode{wire.CtlREJ}, wire.DropNoListener},
	} {
		o := &otherAdapter{port: other, answer: c.answer}
		w, answers := besides(o)
		p := requestTo(c.port, 7)
		if c.change != nil {
			c.change(p)
		}
		Inject(w.eng[1], p)
		w.eng[1].Run(w.now)
		s := w.eng[1].Stats()
		if o.handed != c.handed || len(*answers) != len(c.reply) || len(c.reply) > 0 && (*answers)[0] != c.reply[0] || c.drop != wire.DropNone && s.Drops[c.drop] != 1 {
			t.Errorf("%s: handed over %d times, answers %v, %v", name, o.handed, *answers, s.Drops)
		}
		if want := uint64(c.handed); c.answer == HandOverDone && s.HandedOver != want {
			t.Errorf("%s: counted %d, want %d", name, s.HandedOver, want)
		}
	}
}

// If another user could have spoofed the source of a REQ that was handed over, the REQ needs a cookie, also without load (PROTOCOL
// §7.8).
func TestUnprovenRequestsNeedACookie(t *testing.T) {
	for unproven, want := range map[bool]wire.Opcode{true: wire.CtlRETRY, false: wire.CtlPEND} {
		w, answers := besides(&otherAdapter{})
		p := requestTo(pairPort, 7)
		p.Handed, p.Unproven = true, unproven
		Inject(w.eng[1], p)
		w.eng[1].Run(w.now)
		w.eng[1].Run(w.now.Add(lifetime.ThinkTime))
		if len(*answers) != 1 || (*answers)[0] != want {
			t.Errorf("unproven %t: answers %v, want %v", unproven, *answers, want)
		}
	}
}

// Only a REQ can be handed over by another adapter. Other packets to the well-known port that belong to no connection get RST.
// Packets of our own connections are rejected on this way.
func TestInjectedPacketsOfConnections(t *testing.T) {
	for name, c := range map[string]struct {
		handed, known bool
		want          int
	}{"of nobody": {false, false, 1}, "handed over": {true, false, 0}, "of ours": {false, true, 0}} {
		w, answers := besides(&otherAdapter{})
		id := uint64(99)
		if c.known {
			Inject(w.eng[1], requestTo(pairPort, 7))
			for k := range w.eng[1].group.conns.all {
				id = k.identity.id
			}
			*answers = nil
		}
		f := &forged{from: wire.Endpoint{IP: address(1), Port: wire.SourcePort(7)}, fields: wire.BaseFields{ConnID: id}}
		f.control(wire.CtlPing, (&wire.Ping{Port: ownPort}).Append(nil))
		f.body = append(f.body, make([]byte, wire.RSTPacketLen-wire.BaseHeaderLen-len(f.body))...)
		b := f.bytes()
		p := &RxPacket{From: f.from, To: wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}, N: 1, Len: len(b), Handed: c.handed}
		p.Frags[0].Data = b
		w.eng[1].flush()
		*answers = nil
		Inject(w.eng[1], p)
		w.eng[1].Run(w.now)
		if len(*answers) != c.want || w.eng[1].Stats().Drops[wire.DropUnknownConn] != 1 {
			t.Errorf("%s: answers %v, %v", name, *answers, w.eng[1].Stats().Drops)
		}
	}
}
