package capture

import (
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Packet is a packet as the network has it, and what the engine knew about it.
type Packet struct {
	Time   time.Time // of the turn in which the engine handled it
	Queue  int       // of the engine's receive queue
	Sent   bool      // by this adapter; else received
	CE     bool      // a router marked it
	Held   bool      // received, and waits behind a gap
	Drop   wire.DropReason
	ConnID uint64 // this side's id of the connection; zero outside any
	State  string // of that connection on the wire; empty outside any
	Frame  []byte // Ethernet frame, perhaps cut
	Length int    // bytes of the whole frame
}

// frame puts the headers in front of what was kept of a packet. They are made anew, because sockets see none and AF_XDP's are
// behind the engine by then: addresses and ports are the packet's, and of sent ones whether they may be marked;
// all else is as PROTOCOL §2 has it, also where a router marked the packet (CE). The UDP checksum over IPv6 is right for a packet that was kept whole, else zero.
func (f *Feed) frame(p *Packet, r *ring, s *slot) {
	t := &s.packet
	src, dst := t.MAC, f.mac
	if t.Sent {
		src, dst = dst, src
	}
	header := wire.NewFrameTemplate(src, dst, t.Src, t.Dst)
	n := header.Len()
	p.Frame = slices.Grow(p.Frame[:0], n+s.kept)[:n]
	header.Put(p.Frame, t.Len, t.ECN)
	p.Frame = r.appendBytes(p.Frame, s)
	if header.Is6() && s.kept == t.Len {
		header.SetUDPChecksum(p.Frame[:n], wire.PartialSum(0, p.Frame[n:]), t.Len)
	}
	p.Length = n + t.Len
}

var _ provider.Tap = (*ring)(nil)
