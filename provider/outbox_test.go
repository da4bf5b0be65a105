package provider

import (
	"slices"
	"testing"
)

const several = 3

// boxes returns the inboxes of a group, each with space for one packet.
func boxes() (all [several]*inbox, of func(int) *inbox) {
	for i := range all {
		all[i] = &inbox{packets: make([]RxPacket, inboxPackets-1)}
	}
	return all, func(to int) *inbox { return all[to] }
}

// arrived returns the lengths of the packets that an inbox of boxes received.
func (b *inbox) arrived() (lengths []int) {
	for i := range b.packets[inboxPackets-1:] {
		lengths = append(lengths, b.packets[inboxPackets-1+i].Len)
	}
	return lengths
}

// A forwarded packet keeps the index of the engine whose link received it, also when it is forwarded twice, and its frames go back
// to that engine.
func TestOutboxKeepsWhereFramesBelong(t *testing.T) {
	var o outbox
	p := &RxPacket{N: 2}
	p.Frags[0].ID, p.Frags[1].ID = 7, 8
	o.Pass(p, 1, 1, several)
	if !o.Pending() || len(o.packets[1]) != 1 || o.packets[1][0].Origin != 1 || p.Origin != 0 {
		t.Fatalf("%+v", o.packets)
	}
	p.Origin = 1
	o.Pass(p, 2, 2, several) // the connection moved on
	if o.packets[2][0].Origin != 1 {
		t.Error("a packet that goes on belongs to another link")
	}
	o.GiveBack(p, 0, several)
	o.GiveBack(p, 0, several)
	if got := o.frames; !slices.Equal(got[0], []uint64{7, 8, 7, 8}) || len(got[1])+len(got[2]) != 0 {
		t.Errorf("%v go back", got)
	}
}

// Packets and calls of an outbox reach the right engine once. If the box of an engine has no room for a packet, only this packet is
// refused. No engine is woken without need.
func TestOutboxSends(t *testing.T) {
	var o outbox
	all, of := boxes()
	for i := range 3 {
		o.Pass(&RxPacket{Len: i + 1}, 1, 2, several)
	}
	p := &RxPacket{N: 1}
	p.Frags[0].ID = 9
	o.GiveBack(p, 1, several)
	var refused []int
	o.Send(of, func(p *RxPacket) { refused = append(refused, p.Len) })
	if !slices.Equal(refused, []int{2, 3}) || !slices.Equal(all[2].arrived(), []int{1}) || !slices.Equal(all[1].frames, []uint64{9}) || o.Pending() {
		t.Errorf("refused %v, boxes %v %v", refused, all[1].frames, all[2].arrived())
	}
	for i, want := range []bool{false, true, true} {
		if all[i].waiting.Load() != want {
			t.Errorf("engine %d is called: %t, want %t", i, !want, want)
		}
		all[i].waiting.Store(false)
	}
	o.Send(of, nil)
	for i := range all {
		if all[i].waiting.Load() {
			t.Errorf("engine %d is called for nothing", i)
		}
	}
}

// If a packet of a third engine is refused, its frames go back in the same batch, and nothing is left to send.
func TestRefusedPacketOfAThirdEngine(t *testing.T) {
	var o outbox
	all, of := boxes()
	for range 2 {
		o.Pass(&RxPacket{N: 1, Origin: 3}, 1, 1, several)
	}
	o.Send(of, func(p *RxPacket) { o.GiveBack(p, int(p.Origin-1), several) })
	if len(all[2].frames) != 1 || o.Pending() {
		t.Errorf("%d frames came back, pending: %t", len(all[2].frames), o.Pending())
	}
}
