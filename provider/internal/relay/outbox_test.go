package relay

import (
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/link"
)

// box has space for a number of packets, and remembers what was put into it.
type box struct {
	room    int
	packets []int // lengths
	frames  []uint64
	alerts  int
}

func (b *box) Hand(batch []link.RxPacket) (n int) {
	for n < len(batch) && len(b.packets) < b.room {
		b.packets = append(b.packets, batch[n].Len)
		n++
	}
	return n
}

func (b *box) GiveBack(frames []uint64) { b.frames = append(b.frames, frames...) }
func (b *box) Alert()                   { b.alerts++ }

const several = 3

// boxes returns the inboxes of a group, each with space for one packet.
func boxes() (all [several]*box, of func(int) Inbox) {
	for i := range all {
		all[i] = &box{room: 1}
	}
	return all, func(to int) Inbox { return all[to] }
}

// A forwarded packet keeps the index of the engine whose link received it, also when it is forwarded twice, and its frames go back
// to that engine.
func TestOutboxKeepsWhereFramesBelong(t *testing.T) {
	var o Outbox
	p := &link.RxPacket{N: 2}
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
	var o Outbox
	all, of := boxes()
	for i := range 3 {
		o.Pass(&link.RxPacket{Len: i + 1}, 1, 2, several)
	}
	p := &link.RxPacket{N: 1}
	p.Frags[0].ID = 9
	o.GiveBack(p, 1, several)
	var refused []int
	o.Send(of, func(p *link.RxPacket) { refused = append(refused, p.Len) })
	if !slices.Equal(refused, []int{2, 3}) || !slices.Equal(all[2].packets, []int{1}) || !slices.Equal(all[1].frames, []uint64{9}) || o.Pending() {
		t.Errorf("refused %v, boxes %+v %+v", refused, *all[1], *all[2])
	}
	o.Send(of, nil)
	for i, want := range []int{0, 1, 1} {
		if all[i].alerts != want {
			t.Errorf("engine %d is called %d times, want %d", i, all[i].alerts, want)
		}
	}
}

// If a packet of a third engine is refused, its frames go back in the same batch, and nothing is left to send.
func TestRefusedPacketOfAThirdEngine(t *testing.T) {
	var o Outbox
	all, of := boxes()
	for range 2 {
		o.Pass(&link.RxPacket{N: 1, Origin: 3}, 1, 1, several)
	}
	o.Send(of, func(p *link.RxPacket) { o.GiveBack(p, int(p.Origin-1), several) })
	if len(all[2].frames) != 1 || o.Pending() {
		t.Errorf("%d frames came back, pending: %t", len(all[2].frames), o.Pending())
	}
}
