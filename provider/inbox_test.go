package provider

import "testing"

// A packet keeps the engine whose link it came from on all its ways, and its frames go back by index.
func TestOutboxKeepsWhereFramesBelong(t *testing.T) {
	const several = 3
	first, second := &Engine{index: 0}, &Engine{index: 1}
	var o outbox
	p := &RxPacket{N: 2}
	p.Frags[0].ID, p.Frags[1].ID = 7, 8
	o.pass(p, first, 1, several)
	if !o.pending || len(o.packets[1]) != 1 || o.packets[1][0].origin != first || p.origin != nil {
		t.Fatalf("%+v", o.packets)
	}
	o = outbox{}
	p.origin = first
	o.pass(p, second, 2, several) // the connection moved on
	if o.packets[2][0].origin != first {
		t.Error("a packet that goes on belongs to another link")
	}
	o.giveBack(p, 0, several)
	o.giveBack(p, 0, several)
	if got := o.frames[0]; len(got) != 4 || got[0] != 7 || got[3] != 8 || len(o.frames[1])+len(o.frames[2]) != 0 {
		t.Errorf("%v go back", o.frames)
	}
}
