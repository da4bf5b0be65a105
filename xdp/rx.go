package xdp

// Receive takes up to len(dst) descriptors from the rx ring, whole packets only. The beginning of an incomplete packet stays in the
// ring until the rest is there. The frames belong to the caller until Recycle, or until they are sent.
//
// dst should have room for MaxFrags descriptors. A packet with more descriptors than len(dst) can never be returned: it is dropped and
// counted in Statistics.RxOversize, so that it does not block the ring.
func (s *Socket) Receive(dst []Desc) int {
	want := uint32(len(dst))
	if want == 0 {
		return 0
	}
	n := s.rx.Peek(want)
	whole, packets := s.readPackets(dst, n)
	for whole == 0 {
		if n < want {
			// Nothing, or the copy of the producer's index ends in the middle of a packet: look again before giving up.
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

// readPackets copies n descriptors and says how many of them make up how many whole packets. It releases nothing.
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

// dropOversize drops the packet at the head of the rx ring, which has more than limit descriptors, unless its end has
// not arrived yet.
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

// Recycle gives a received frame back. addr may point anywhere into the frame.
func (s *Socket) Recycle(addr uint64) {
	if !s.rxRange.contains(addr) {
		if s.closed {
			return // a straggler: Close has taken all frames back
		}
		panic("xdp: X5: Recycle of an address outside this socket's rx frames")
	}
	s.audit.move(addr, inEngineRx, freeRx)
	s.rxFree.push(addr &^ uint64(frameMask))
}

// Refill moves free rx frames into the fill ring, with one publish, up to the level that recent traffic needs (see
// fillLevel). It says how many.
func (s *Socket) Refill() int {
	// The ring's other index is in a cache line that the kernel writes for every packet: it is looked at once a batch.
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

// RxReady reports whether Receive might find something, at the cost of one load.
func (s *Socket) RxReady() bool { return s.rx.Peek(1) > 0 }

// RxWaiting reports whether the rx ring holds anything. Unlike all else it may be asked by anyone, until Close.
func (s *Socket) RxWaiting() bool { return s.rx.waiting() }

// PollDriver runs the driver's receive loop in the calling thread, once and without waiting, on a socket with busy polling. Receive
// then returns the packets.
func (s *Socket) PollDriver() {
	if s.fd < 0 {
		return
	}
	s.counters.polls.Add(1)
	// An error means that the device is down or gone. Kick and Poll report that; there is nothing to receive meanwhile.
	_ = pollDriver(s.fd)
}
