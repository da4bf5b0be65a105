package xdp

import "golang.org/x/sys/unix"

const (
	// maxKickCalls bounds the system calls of one Kick. A full default TX ring needs 4096/32 = 128 calls with the kernel's default
	// budget; the rest is for retries.
	maxKickCalls = 256
	// maxStalledKicks is the number of successive calls that may return EAGAIN without taking a descriptor. The device queue is
	// then busy or the send buffer full, and more calls would not help. The descriptors stay for the next Kick.
	maxStalledKicks = 3
)

// AllocTx takes a tx frame from the pool and returns its address. The caller owns the frame until Transmit or FreeTx.
func (s *Socket) AllocTx() (addr uint64, ok bool) {
	if s.txFree.n == 0 {
		return 0, false
	}
	addr = s.txFree.pop()
	s.audit.move(addr, freeTx, inEngineTx)
	return addr, true
}

// FreeTx frees a tx frame that was not transmitted. addr may be any address in the frame.
func (s *Socket) FreeTx(addr uint64) {
	if !s.txRange.contains(addr) {
		if s.closed {
			return // a late call: Close has freed all frames
		}
		panic("xdp: X5: FreeTx of an address outside this socket's tx frames")
	}
	s.audit.move(addr, inEngineTx, freeTx)
	s.txFree.push(addr &^ uint64(frameMask))
}

// TxFree returns the number of free tx frames.
func (s *Socket) TxFree() int { return s.txFree.n }

// TxPending returns the number of descriptors that Transmit took and Complete has not reaped.
func (s *Socket) TxPending() int { return int(s.txPending) + s.rejected.n }

// TxUnsent returns the number of descriptors that the kernel has not taken from the tx ring. Kick sends them.
func (s *Socket) TxUnsent() int { return int(s.tx.Outstanding()) }

// Transmit puts whole packets into the tx ring, as many as fit, with one publish, and returns the number of their descriptors. The
// kernel owns the frames until Complete reaps them. A packet without its end is not taken. Nothing is sent before Kick.
//
// The kernel refuses a descriptor that is empty, outside the UMEM, or across a frame boundary. It refuses packets of more than
// MaxFrags descriptors, and of several without Config.MultiBuffer. Transmit takes such packets, but does not send them. It counts
// them in Statistics.TxInvalid, and Complete completes them (X3). To the caller they are packets lost in the network.
func (s *Socket) Transmit(descs []Desc) int {
	room := s.tx.Reserve(uint32(min(len(descs), len(s.completion.mem.Slots)-int(s.txPending)))) // X4
	var written uint32
	taken, packets := 0, 0
	for taken < len(descs) {
		n := packetDescs(descs[taken:])
		if n == 0 {
			break
		}
		packet := descs[taken : taken+n]
		if !s.sendable(packet) {
			if !s.reject(packet) {
				break
			}
			taken += n
			continue
		}
		if written+uint32(n) > room {
			break
		}
		for i := range packet {
			s.audit.send(packet[i].Addr)
			s.tx.Set(written, packet[i])
			written++
		}
		taken += n
		packets++
	}
	s.tx.Submit(written)
	s.txPending += written
	if packets != 0 {
		s.counters.txPackets.Add(uint64(packets))
		s.counters.txFrames.Add(uint64(written))
	}
	return taken
}

// sendable repeats the checks that the kernel makes on each descriptor (net/xdp/xsk_queue.h, xp_aligned_validate_desc), because the
// kernel leaks the frames of a packet that fails them.
func (s *Socket) sendable(packet []Desc) bool {
	if len(packet) > s.maxFrags {
		return false
	}
	for i := range packet {
		d := &packet[i]
		if d.Len == 0 || d.Len > FrameSize || d.Options&^uint32(PacketContinues) != 0 {
			return false
		}
		if d.Addr&frameMask+uint64(d.Len) > FrameSize || d.Addr >= s.umemSize {
			return false
		}
	}
	return true
}

// reject queues the addresses of an invalid packet for Complete. It returns false if the queue, which is as long as the completion
// ring, is full.
func (s *Socket) reject(packet []Desc) bool {
	if len(packet) > len(s.rejected.addrs)-s.rejected.n {
		return false
	}
	for i := range packet {
		s.audit.send(packet[i].Addr)
		s.rejected.push(packet[i].Addr)
	}
	s.counters.txInvalid.Add(1)
	return true
}

// Kick makes the kernel send the packets in the tx ring. In copy mode it sends within the call, in batches of Info.TxBudget
// descriptors, while the kernel takes some. left is the number of descriptors that the kernel does not take now, because the device
// is busy or the send buffer full. Only another Kick sends them, and the kernel does not report when there is room. A packet that
// the device dropped is counted in Statistics.TxLost and completed as usual. An error means that the interface is down or gone;
// left is then 0, because a retry would not help soon.
//
// In zero-copy mode, Kick wakes the driver, which sends by itself. The driver may also need a wake-up to complete.
func (s *Socket) Kick() (left int, err error) {
	if s.fd < 0 {
		return 0, nil
	}
	if s.info.ZeroCopy {
		return s.kickZeroCopy()
	}
	unsent := s.tx.Outstanding()
	stalled := 0
	for range maxKickCalls {
		if unsent == 0 {
			return 0, nil
		}
		s.counters.kicks.Add(1)
		errno := kickTx(s.fd)
		now := s.tx.Outstanding()
		switch errno {
		case 0:
			return int(now), nil
		case unix.EAGAIN, unix.EINTR:
			if now != unsent {
				stalled = 0
			} else if stalled++; stalled == maxStalledKicks {
				s.counters.txStalled.Add(1)
				return int(now), nil
			}
		case unix.EBUSY:
			// The current packet is lost, and later packets are still in the ring. The kernel may not have published its index yet,
			// so the number of descriptors left is unknown until the next call.
			s.counters.txLost.Add(1)
			now = max(now, 1)
		default:
			return 0, s.kickFailed(errno)
		}
		unsent = now
	}
	return int(unsent), nil
}

// kickZeroCopy wakes the driver if it has packets to send or to complete.
func (s *Socket) kickZeroCopy() (left int, err error) {
	if s.txPending == 0 {
		return 0, nil
	}
	s.counters.kicks.Add(1)
	switch errno := kickTx(s.fd); errno {
	case 0:
		return 0, nil
	case unix.EAGAIN, unix.EINTR, unix.EBUSY:
		return int(s.tx.Outstanding()), nil // the device is being reconfigured, and was not woken
	default:
		return 0, s.kickFailed(errno)
	}
}

// kickFailed wraps errno. The error is cached, because a device that is down fails each kick, and X6 forbids allocation.
func (s *Socket) kickFailed(errno unix.Errno) error {
	if s.kickError == nil || s.kickErrno != errno {
		s.kickErrno = errno
		s.kickError = s.fail("send", errno)
	}
	return s.kickError
}

// Complete reaps sent descriptors with one publish. Frames return to their pool. Addresses in the arena are written to dst, as
// submitted; Complete returns their number. It stops at the first arena address that does not fit into dst. With a nil dst, it
// discards arena addresses.
func (s *Socket) Complete(dst []uint64) int {
	returned := 0
	for s.rejected.n > 0 {
		addr := s.rejected.addrs[s.rejected.n-1]
		if !s.completeOne(addr, dst, &returned) {
			return returned
		}
		s.rejected.n--
	}
	n := s.completion.Peek(^uint32(0))
	var done uint32
	for done < n && s.completeOne(s.completion.Get(done), dst, &returned) {
		done++
	}
	s.completion.Release(done)
	s.txPending -= done
	if done != 0 {
		s.counters.completions.Add(uint64(done))
	}
	return returned
}

// completeOne handles one completed address. It returns false if the address belongs into dst and dst is full.
func (s *Socket) completeOne(addr uint64, dst []uint64, returned *int) bool {
	switch {
	case s.txRange.contains(addr):
		s.audit.complete(addr)
		s.txFree.push(addr &^ uint64(frameMask))
	case s.rxRange.contains(addr):
		s.audit.complete(addr)
		s.rxFree.push(addr &^ uint64(frameMask))
	case dst == nil:
	case *returned < len(dst):
		dst[*returned] = addr
		*returned++
	default:
		return false
	}
	return true
}
