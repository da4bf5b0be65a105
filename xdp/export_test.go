package xdp

// RxFree counts the rx frames that are neither with the kernel nor with the caller.
func (s *Socket) RxFree() int { return s.rxFree.n }

// Gather copies the bytes of a packet to dst, up to its length, and returns their number.
func (u *UMEM) Gather(dst []byte, packet []Desc) int {
	n := 0
	for i := range packet {
		n += copy(dst[n:], u.Bytes(packet[i].Addr, int(packet[i].Len)))
	}
	return n
}
