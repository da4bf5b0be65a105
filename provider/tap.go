package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Tap receives every packet of an engine: received packets when their fate is known, sent packets when they are complete. Packets that were
// sent while a packet was handled come before this packet, with the same time. Without a tap, an engine pays one comparison with nil for
// each packet.
type Tap interface {
	// Packet is called by the engine's owner, inside a turn. It must neither block nor keep p or anything that p refers to: the
	// frames are used again.
	Packet(p *TapPacket)
}

// TapPacket is a packet and what the engine knows about it.
type TapPacket struct {
	At       clock.Time
	Sent     bool            // by this engine; else received
	Src, Dst wire.Endpoint   // as in the packet's headers
	MAC      [6]byte         // link-layer address of the peer; zero if the kernel resolves it
	CE       bool            // a router marked it
	ECN      wire.ECN        // of a sent packet: whether routers may mark it
	Drop     wire.DropReason // why a received packet was not used; DropNone for all others
	Held     bool            // received, and waits behind a gap
	ConnID   uint64          // ours of the connection that it belongs to; zero outside any
	State    string          // of that connection, after a received packet was handled; empty outside any
	Len      int             // bytes of ND packet
	Pieces   []Frag          // the ND packet
}

// tapping is an engine's tap, and what it is told next.
type tapping struct {
	tap Tap // nil: off
	p   TapPacket
}

// SetTap makes t the engine's tap; nil ends that. The owner calls it.
func (e *Engine) SetTap(t Tap) { e.tap.tap = t }

// on reports whether somebody wants to be told.
func (t *tapping) on() bool { return t.tap != nil }

// received reports a packet that an engine handled. If the packet went on to another engine, that engine reports it.
func (t *tapping) received(p *RxPacket, by *Engine, d wire.DropReason, keeps kept) {
	var of *conn
	if c := by.group.conns.lookup(p.ConnID()); c != nil && c.home.Load() == by {
		of = c
	}
	if of == nil && keeps == keptFrames {
		return
	}
	t.p = TapPacket{At: by.now, Src: p.From, Dst: p.To, MAC: p.MAC, CE: p.CE, Drop: d, Held: keeps == keptCopy, Len: p.Len, Pieces: p.Frags[:p.N]}
	t.tell(of)
}

// sent tells of a packet that an engine sealed, from an endpoint of ours to another one. of is nil outside connections.
func (t *tapping) sent(p *TxPacket, by *Engine, of *conn, from, to *wire.Endpoint) {
	t.p = TapPacket{At: by.now, Sent: true, Src: *from, Dst: *to, ECN: p.ECN, Len: p.Len, Pieces: p.Frags[:p.N]}
	if !p.Bulk { // whose way the kernel finds
		t.p.MAC = by.link.Hop(p.Path)
	}
	t.tell(of)
}

func (t *tapping) tell(of *conn) {
	if of != nil {
		t.p.ConnID, t.p.State = of.identity.id, of.phase.String()
	}
	t.tap.Packet(&t.p)
}
