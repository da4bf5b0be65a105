package xdp

// Receive takes up to len(dst) descriptors from the rx ring, in whole packets. The beginning of an incomplete packet stays in the
// ring until its end arrives. The caller owns the frames until Recycle or Transmit.
//
// dst should have room for MaxFrags descriptors. A packet with more than len(dst) descriptors is dropped and counted in
// Statistics.RxOversize, so that it does not block the ring.
func (s *Socket) Receive(dst []Desc) int {
	want := uint32(len(dst))
	if want == 0 {
		return 0
	}
	n := s.rx.Peek(want)
	whole, packets := s.readPackets(dst, n)
	for whole == 0 {
		if n < want {
			// The cached index of the producer shows no whole packet, so load it again.
			more := s.rx.Reload(want)
			if more == n {
				return 0
			}
			n = more
		} else {
			if !s.dropOversize(want) {
				return 0
			}
			n = s.rx.Reload(want)
		}
		whole, packets = s.readPackets(dst, n)
	}
	if auditing {
		for i := range dst[:whole] {
			s.audit.move(dst[i].Addr, inFill, inEngineRx)
		}
	}
	s.rx.Release(uint32(whole))
	s.level.taken += uint32(whole)
	s.counters.rxPackets.Add(uint64(packets))
	s.counters.rxFrames.Add(uint64(whole))
	return whole
}

// readPackets copies n descriptors. It returns how many packets are complete, and the number of their descriptors. It releases
// nothing.
func (s *Socket) readPackets(dst []Desc, n uint32) (whole, packets int) {
	for i := range n {
		d := s.rx.Get(i)
		dst[i] = d
		if d.Options&PacketContinues == 0 {
			whole = int(i) + 1
			packets++
		}
	}
	return whole, packets
}

// dropOversize drops the packet at the head of the rx ring, which has more than limit descriptors, if its end has arrived.
func (s *Socket) dropOversize(limit uint32) bool {
	available := s.rx.Reload(^uint32(0))
	end := limit
	for end < available && s.rx.Get(end).Options&PacketContinues != 0 {
		end++
	}
	if end >= available {
		return false
	}
	end++
	for i := range end {
		addr := s.rx.Get(i).Addr
		s.audit.move(addr, inFill, inEngineRx)
		s.Recycle(addr)
	}
	s.rx.Release(end)
	s.counters.rxOversize.Add(1)
	return true
}

// Recycle frees a received frame. addr may be any address in the frame.
func (s *Socket) Recycle(addr uint64) {
	if !s.rxRange.contains(addr) {
		if s.closed {
			return // a late call: Close has freed all frames
		}
		panic("xdp: X5: Recycle of an address outside this socket's rx frames")
	}
	s.audit.move(addr, inEngineRx, freeRx)
	s.rxFree.push(addr &^ uint64(frameMask))
}

// Refill moves free rx frames into the fill ring, with one publish, up to the level that recent traffic needs (fillLevel). It
// returns their number.
func (s *Socket) Refill() int {
	// The kernel writes its index of the ring for each packet, so its cache line is read only once per batch.
	if s.level.wait() {
		return 0
	}
	left := s.fill.Outstanding()
	missing := s.level.missing(left)
	n := uint32(0)
	if missing > 0 {
		n = s.fill.Reserve(min(uint32(s.rxFree.n), missing))
	}
	s.level.looked(left + n)
	for i := range n {
		addr := s.rxFree.pop()
		s.audit.move(addr, freeRx, inFill)
		s.fill.Set(i, addr)
	}
	if n > 0 {
		s.fill.Submit(n)
	}
	return int(n)
}

// RxReady reports whether Receive may return packets. It costs one load.
func (s *Socket) RxReady() bool { return s.rx.Peek(1) > 0 }

// RxWaiting reports whether the rx ring holds descriptors. Any goroutine may call it until Close.
func (s *Socket) RxWaiting() bool { return s.rx.waiting() }
