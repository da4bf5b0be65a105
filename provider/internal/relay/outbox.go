// Package relay passes packets between the engines of one adapter: packets that arrived on another queue than their engine's, and their
// receive frames on the way back.
package relay

import "github.com/ndxdp/ndxdp/provider/internal/link"

// Outbox is what one engine has for the others of its group, by index, until its receive batch or its turn is done. It belongs to the engine's owner.
type Outbox struct {
	packets [][]link.RxPacket
	frames  [][]uint64 // that came with packets from others
	pending bool       // there is something
}

// Inbox is where an engine finds what others have for it.
type Inbox interface {
	Hand(batch []link.RxPacket) (n int) // leaves packets, and returns how many there was room for
	GiveBack(frames []uint64)           // leaves frames of the engine's link
	Alert()                             // says that the inbox is not empty
}

// Pass keeps a packet for the engine at index to of several. origin is the number of the link that it came from, unless it came from an
// engine that set it.
func (o *Outbox) Pass(p *link.RxPacket, origin link.Number, to, several int) {
	if o.packets == nil {
		o.packets = make([][]link.RxPacket, several)
	}
	if o.packets[to] == nil {
		o.packets[to] = make([]link.RxPacket, 0, link.RxBatch)
	}
	batch := append(o.packets[to], *p)
	if p.Origin == 0 {
		batch[len(batch)-1].Origin = origin
	}
	o.packets[to] = batch
	o.pending = true
}

// GiveBack keeps the frames of a packet that came from the engine at index to of several.
func (o *Outbox) GiveBack(p *link.RxPacket, to, several int) {
	if o.frames == nil {
		o.frames = make([][]uint64, several)
	}
	for i := range p.N {
		o.frames[to] = append(o.frames[to], p.Frags[i].ID)
	}
	o.pending = true
}

// Pending says that there is something to send.
func (o *Outbox) Pending() bool { return o.pending }

// Send puts the packets into the inboxes of their engines, and gives other engines' frames back to them. refused is called with each packet
// that has no room, and may give its frames back.
func (o *Outbox) Send(inbox func(to int) Inbox, refused func(*link.RxPacket)) {
	for i, batch := range o.packets {
		if len(batch) == 0 {
			continue
		}
		to := inbox(i)
		for n := to.Hand(batch); n < len(batch); n++ {
			refused(&batch[n])
		}
		o.packets[i] = batch[:0]
		to.Alert()
	}
	for i, frames := range o.frames {
		if len(frames) == 0 {
			continue
		}
		to := inbox(i)
		to.GiveBack(frames)
		o.frames[i] = frames[:0]
		to.Alert()
	}
	o.pending = false // also what refused packets left
}
