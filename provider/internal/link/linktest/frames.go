package linktest

import "github.com/ndxdp/ndxdp/provider/internal/link"

// Frames is a link with an unlimited number of frames. It records transmitted packets.
type Frames struct{ Sent []link.TxPacket }

// Frames fills dst with new frames.
func (f *Frames) Frames(dst []link.Frag) int {
	for i := range dst {
		dst[i] = link.Frag{Data: make([]byte, link.FrameSize), ID: uint64(i)}
	}
	return len(dst)
}

// Transmit appends packets to Sent.
func (f *Frames) Transmit(pkts []link.TxPacket) { f.Sent = append(f.Sent, pkts...) }

// Forget does nothing.
func (f *Frames) Forget(link.Path) {}
