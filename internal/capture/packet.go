package capture

import (
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Packet is a packet on the network, with the engine's information about it.
type Packet struct {
	Time   time.Time // when the engine's poll handled it
	Queue  int       // index of the engine's receive queue
	Sent   bool      // sent by this adapter; otherwise received
	CE     bool      // a router marked it
	Held   bool      // received, and stored behind a gap
	Drop   wire.DropReason
	ConnID uint64 // this side's id of the connection; zero without a connection
	State  string // phase of the connection; empty without a connection
	Frame  []byte // Ethernet frame, possibly truncated
	Length int    // length of the whole frame in bytes
}

// frame builds the headers in front of the captured bytes. They are synthesized, because sockets do not deliver headers, and
// AF_XDP's are gone when the engine runs. Addresses, ports and the ECN field are the packet's. All other fields are as in PROTOCOL
// §2. Over IPv6, the UDP checksum is correct if the packet was captured completely, and zero otherwise.
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
