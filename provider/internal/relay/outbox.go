// Package relay passes packets between the engines of one adapter, if they arrived on another engine's queue, and returns their
// receive frames.
package relay

import "github.com/ndxdp/ndxdp/provider/internal/link"

// Outbox collects what one engine has for other engines of its adapter, by index, until the end of its receive batch or poll. The
// engine's owner uses it.
type Outbox struct {
	packets [][]link.RxPacket
	frames  [][]uint64 // frames of packets that other engines passed on
	pending bool       // there is something to send
}

// Inbox is where an engine receives packets and frames from other engines.
type Inbox interface {
	Hand(batch []link.RxPacket) (n int) // adds packets, and returns how many fit
	GiveBack(frames []uint64)           // adds frames of the engine's own link
	Alert()                             // notifies the engine
}

// Pass queues a packet for the engine with index to of several. origin is the link that received the packet, unless another engine
// has set it already.
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

// GiveBack queues the frames of a packet for the engine with index to of several, which passed it on.
func (o *Outbox) GiveBack(p *link.RxPacket, to, several int) {
	if o.frames == nil {
		o.frames = make([][]uint64, several)
	}
	for i := range p.N {
		o.frames[to] = append(o.frames[to], p.Frags[i].ID)
	}
	o.pending = true
}

// Pending reports whether there is something to send.
func (o *Outbox) Pending() bool { return o.pending }

// Send delivers queued packets and frames to the inboxes. It calls refused for each packet that does not fit; refused may return
// its frames with GiveBack.
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
	o.pending = false // includes frames of refused packets
}
