package xdp

// MaxFrags is the largest number of descriptors of a sent packet. The kernel puts the first into the head of its skb, and one each
// into MAX_SKB_FRAGS = 17 page fragments (net/xdp/xsk.c, xsk_build_skb). It drops packets with more.
const MaxFrags = 18

// NextPacket splits the first packet off descs. packet is empty if descs holds no whole packet.
func NextPacket(descs []Desc) (packet, rest []Desc) {
	n := packetDescs(descs)
	return descs[:n:n], descs[n:]
}

// PacketLen returns the number of bytes of a packet's descriptors.
func PacketLen(packet []Desc) int {
	n := 0
	for i := range packet {
		n += int(packet[i].Len)
	}
	return n
}

// packetDescs returns the number of descriptors of the first packet, or 0 if its end is not in descs.
func packetDescs(descs []Desc) int {
	for i := range descs {
		if descs[i].Options&PacketContinues == 0 {
			return i + 1
		}
	}
	return 0
}
