package xdp

// RxBacklog returns how full the rx ring is, from 0 to 256. At 256 the kernel drops packets.
func (s *Socket) RxBacklog() int {
	size := uint32(len(s.rx.mem.Slots))
	return int(s.rx.Reload(size) * 256 / size)
}
