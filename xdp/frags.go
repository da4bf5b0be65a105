package xdp

// MaxFrags is the most descriptors one sent packet may have: the kernel puts the first into the head of its skb and one
// each into MAX_SKB_FRAGS = 17 page fragments (net/xdp/xsk.c, xsk_build_skb). The kernel drops a packet with more.
const MaxFrags = 18

// NextPacket splits the first packet off descs. The packet is empty when descs holds no whole packet.
func NextPacket(descs []Desc) (packet, rest []Desc) {
	n := packetDescs(descs)
	return descs[:n:n], descs[n:]
}

// PacketLen adds up the bytes of a packet's descriptors.
func PacketLen(packet []Desc) int {
	n := 0
	for i := range packet {
		n += int(packet[i].Len)
	}
	return n
}

// packetDescs counts the descriptors of the first packet, 0 when its end is not in descs.
func packetDescs(descs []Desc) int {
	for i := range descs {
		if descs[i].Options&PacketContinues == 0 {
			return i + 1
		}
	}
	return 0
}
