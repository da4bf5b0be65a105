package xdp

// RxBacklog says how full the rx ring is, in 256ths: 0 when the owner keeps up, 256 when the kernel drops packets.
func (s *Socket) RxBacklog() int {
	size := uint32(len(s.rx.mem.Slots))
	return int(s.rx.Reload(size) * 256 / size)
}
