package provider

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// ownPort is the port on which the passive side of these tests receives, beside the well-known port.
const ownPort = 40123

// newApart is two engines. The passive one, with its listener, receives on a port of its own.
func newApart() *world {
	w := newWorld(newLanes(), 64, Config{})
	w.eng[1].cfg.ReceivePort = ownPort
	w.listen()
	return w
}

// The active side sends to the UDP port that the REP states. Only the REQ goes to the well-known port (PROTOCOL §2, §7.1).
func TestClientFollowsThePortOfTheAnswer(t *testing.T) {
	w := newApart()
	to := map[wire.Opcode]map[uint16]int{}
	w.sent = func(f flight) bool {
		if f.to == 0 {
			return true
		}
		op := opcode(f.data)
		if to[op] == nil {
			to[op] = map[uint16]int{}
		}
		to[op][f.at.Port]++
		return true
	}
	if _, ok := w.connect(w.qp); !ok {
		t.Fatal("no connection")
	}
	if len(to) < 3 {
		t.Fatalf("the client sent %v", to)
	}
	for op, ports := range to {
		want := uint16(ownPort)
		if op == wire.CtlREQ {
			want = wire.DefaultPort
		}
		if len(ports) != 1 || ports[want] == 0 {
			t.Errorf("%v went to %v, want %d", op, ports, want)
		}
	}
}

// The answers to a REQ go to the port that it states. A REQ without a port is invalid (PROTOCOL §7.1).
func TestAnswersGoToTheStatedPort(t *testing.T) {
	for port, want := range map[uint16]int{0: 0, 1: 1, ownPort: 1, wire.DefaultPort: 1} {
		w := newWorld(newLanes(), 0, Config{})
		w.listen()
		var at []uint16
		w.lane[1].carry = func(f flight) { at = append(at, f.at.Port) }
		w.injectAndWait(asking(address(1), &wire.Hello{
			ConnID: 7, Nonce: 7, SrcPort: 5, DstPort: pairPort, UDPPort: port, MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: 1408, Window: 16,
		}), lifetime.ThinkTime)
		if len(at) != want || want == 1 && at[0] != port {
			t.Errorf("port %d: answers to %v", port, at)
		}
	}
}

// RST goes to the port that a PING states. As an answer to any other packet it goes to the well-known port (PROTOCOL §7.4).
func TestResetGoesToThePortOfPing(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(*forged)
		want uint16
		drop wire.DropReason
	}{
		"PING":           {func(f *forged) { f.control(wire.CtlPing, (&wire.Ping{Port: ownPort}).Append(nil)) }, ownPort, wire.DropUnknownConn},
		"PING of nobody": {func(f *forged) { f.control(wire.CtlPing, (&wire.Ping{}).Append(nil)) }, 0, wire.DropControl},
		"DREQ":           {func(f *forged) { f.control(wire.CtlDREQ, nil) }, wire.DefaultPort, wire.DropUnknownConn},
	} {
		w := newWorld(newLanes(), 0, Config{})
		f := &forged{from: wire.Endpoint{IP: address(1), Port: wire.SourcePort(7)}}
		c.f(f)
		f.body = append(f.body, make([]byte, wire.RSTPacketLen-wire.BaseHeaderLen-len(f.body))...)
		f.fields.ConnID = 99
		var at []uint16
		w.lane[1].carry = func(f flight) { at = append(at, f.at.Port) }
		w.inject(f)
		if s := w.eng[1].Stats(); s.Drops[c.drop] != 1 || (len(at) != 0) != (c.want != 0) || c.want != 0 && at[0] != c.want {
			t.Errorf("%s: answers to %v, %v", name, at, s.Drops)
		}
	}
}
