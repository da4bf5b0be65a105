package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// tapped keeps copies of the packets that a tap received.
type tapped struct {
	TapPacket
	bytes []byte
}

type tapLog struct{ all []tapped }

func (l *tapLog) Packet(p *TapPacket) {
	t := tapped{TapPacket: *p}
	for i := range p.Pieces {
		t.bytes = append(t.bytes, p.Pieces[i].Data...)
	}
	t.Pieces = nil
	l.all = append(l.all, t)
}

// TestTapSeesEveryPacketOnce runs a handshake, data with losses and retransmissions, and an ending. The taps must get exactly the
// packets that the counters count, whole and with the addresses of their headers. The packets that one side received must be those
// that the other side sent.
func TestTapSeesEveryPacketOnce(t *testing.T) {
	for _, queues := range []int{1, 3} {
		p := newQueuesPair(t, 8192, queues)
		var logs [2]tapLog
		for side := range 2 {
			p.eng[side].SetTap(&logs[side])
			for _, e := range p.more[side] {
				e.SetTap(&logs[side])
			}
		}
		p.connect()
		n := 0
		p.link[1].disturb = func() bool { n++; return n%5 == 0 }
		if queues > 1 { // packets to side 1 arrive on random queues, so that engines forward them to each other
			p.landOn(1, func() int { n++; return n % queues })
		}
		p.link[1].loseNth = 7
		for range 20 {
			p.post(0, p.write(0, 0, 100_000))
			p.pass(50 * time.Millisecond)
		}
		for side := range 2 {
			checkTapCounts(t, p, side, logs[side].all)
		}
		sent := map[string]int{}
		for _, x := range logs[0].all {
			if x.Sent {
				sent[string(x.bytes)]++
			}
		}
		for _, x := range logs[1].all {
			if !x.Sent && sent[string(x.bytes)] == 0 {
				t.Fatalf("received a packet that was not sent: %+v", x.TapPacket)
			}
		}
	}
}

func checkTapCounts(t *testing.T, p *pair, side int, all []tapped) {
	t.Helper()
	s := p.stats(side)
	var got Stats
	held, open := 0, 0
	for _, x := range all {
		if len(x.bytes) != x.Len || x.At == 0 {
			t.Fatalf("%d bytes of a packet of %d at %v", len(x.bytes), x.Len, x.At)
		}
		if x.State == "open" && x.ConnID != 0 {
			open++
		}
		if x.Sent {
			got.PacketsOut++
			if x.Src.Port != wire.SourcePort(x.ConnID) || x.Dst.Port != wire.DefaultPort || x.Src.IP != pairIP[side] {
				t.Fatalf("sent from %v to %v", x.Src, x.Dst)
			}
			continue
		}
		got.PacketsIn++
		got.Drops[x.Drop]++
		if x.Held {
			held++
		}
	}
	got.Drops[wire.DropNone] = 0
	if got.PacketsOut != s.PacketsOut || got.PacketsIn != s.PacketsIn || got.Drops != s.Drops {
		t.Errorf("end %d: tapped %d out, %d in, drops %v; counted %d, %d, %v", side, got.PacketsOut, got.PacketsIn, got.DropsByName(),
			s.PacketsOut, s.PacketsIn, s.DropsByName())
	}
	if side == 1 && (held == 0 || open == 0 || got.Drops[wire.DropDuplicate] == 0) {
		t.Errorf("%d packets held, %d of an open connection, drops %v: the test has lost its disturbances", held, open, got.DropsByName())
	}
}

// TestTapOfStrangers: a packet without a connection, and its answer, are tapped without a connection. The answer comes first,
// because it was sent while the packet was processed.
func TestTapOfStrangers(t *testing.T) {
	p := newPair(t, 1408)
	var log tapLog
	p.eng[1].SetTap(&log)
	k := p.eng[0].NewConnector()
	var connected promise
	p.must(k.connect(p.qp[0], wire.Endpoint{IP: pairIP[0]}, wire.Endpoint{IP: pairIP[1], Port: 1}, p.limits[0], connected.finish))
	p.runUntilIdle()
	connected.must(t, OutcomeRefused)
	if len(log.all) != 2 {
		t.Fatalf("tapped %+v", log.all)
	}
	for i, x := range log.all {
		if x.Sent != (i == 0) || x.ConnID != 0 || x.State != "" || len(x.bytes) != x.Len {
			t.Errorf("%+v", x.TapPacket)
		}
	}
	if out, in := log.all[0], log.all[1]; in.Drop != wire.DropNoListener || out.Drop != wire.DropNone || in.Src.IP != out.Dst.IP ||
		out.Src != (wire.Endpoint{IP: pairIP[1], Port: wire.SourcePort(0)}) {
		t.Errorf("%+v answered by %+v", in.TapPacket, out.TapPacket)
	}
	p.eng[1].SetTap(nil)
	p.connect()
	if len(log.all) != 2 {
		t.Errorf("%d packets after the tap was taken away", len(log.all))
	}
}
