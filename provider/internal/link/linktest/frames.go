package linktest

import "github.com/ndxdp/ndxdp/provider/internal/link"

// Frames is a link with as many frames as are asked for, which keeps the packets that leave.
type Frames struct{ Sent []link.TxPacket }

// Frames fills dst with frames.
func (f *Frames) Frames(dst []link.Frag) int {
	for i := range dst {
		dst[i] = link.Frag{Data: make([]byte, link.FrameSize), ID: uint64(i)}
	}
	return len(dst)
}

// Transmit keeps packets.
func (f *Frames) Transmit(pkts []link.TxPacket) { f.Sent = append(f.Sent, pkts...) }
