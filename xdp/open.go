package xdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// bindRetryMin and bindRetryMax bound the pause between two attempts to bind a busy queue. The pause is short at first, because
	// the kernel frees a queue within about a millisecond, and longer if another socket is really bound to it.
	bindRetryMin = 500 * time.Microsecond
	bindRetryMax = 20 * time.Millisecond
)

// Open opens a socket on queue cfg.Queue of interface cfg.Ifindex, with frames reserved from u. The first socket on u registers u
// with the kernel. Further sockets share the registration: they must have the same Mode and MultiBuffer, and another queue or
// interface. The fill ring is filled before the socket is bound.
func Open(u *UMEM, cfg Config) (*Socket, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	u.opening.Lock()
	defer u.opening.Unlock()
	sharer := u.sharer()
	if sharer != nil {
		if err := cfg.agreesWith(&sharer.cfg); err != nil {
			return nil, err
		}
	}
	s := &Socket{umem: u, cfg: cfg, fd: -1}
	if err := s.reserve(); err != nil {
		return nil, err
	}
	if err := s.open(sharer); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// agreesWith checks the options that the kernel takes from the first socket of a shared UMEM.
func (c *Config) agreesWith(first *Config) error {
	switch {
	case c.Mode != first.Mode:
		return fieldError("Mode", "is %v, but the UMEM is shared with a socket bound as %v", c.Mode, first.Mode)
	case c.MultiBuffer != first.MultiBuffer:
		return fieldError("MultiBuffer", "is %t, but the UMEM is shared with a socket where it is %t", c.MultiBuffer, first.MultiBuffer)
	}
	return nil
}

// open creates and binds the socket. After a failure, Close releases everything.
func (s *Socket) open(sharer *Socket) error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return s.fail("create an AF_XDP socket", err)
	}
	s.fd = fd
	if sharer == nil {
		reg := umemRegistration(s.umem.mem)
		if err := setOption(fd, unix.XDP_UMEM_REG, &reg); err != nil {
			if errors.Is(err, unix.ENOBUFS) { // only xdp_umem_account_pages returns it
				err = fmt.Errorf("%w: %w", ErrLockedMemory, err)
			}
			return s.fail(fmt.Sprintf("register %d bytes of UMEM", reg.Len), err)
		}
	}
	// All four sizes must be set before the offsets are read, and the TX ring before its budget.
	for _, ring := range []struct {
		name   string
		option int
		slots  uint32
	}{
		{"rx", unix.XDP_RX_RING, s.cfg.RxRing},
		{"tx", unix.XDP_TX_RING, s.cfg.TxRing},
		{"fill", unix.XDP_UMEM_FILL_RING, s.cfg.FillRing},
		{"completion", unix.XDP_UMEM_COMPLETION_RING, s.cfg.CompletionRing},
	} {
		if err := setOption(fd, ring.option, &ring.slots); err != nil {
			return s.fail(fmt.Sprintf("create a %s ring of %d slots", ring.name, ring.slots), err)
		}
	}
	s.setSocketOptions()
	if err := s.mapRings(); err != nil {
		return err
	}
	s.Refill()
	if err := s.bind(sharer); err != nil {
		return err
	}
	if err := s.readInfo(); err != nil {
		return err
	}
	s.fillForDriver()
	return nil
}

// fillForDriver gives all receive frames to a driver in zero-copy mode, because it receives all packets of the queue into them.
func (s *Socket) fillForDriver() {
	if s.info.ZeroCopy {
		s.level.fix()
		s.Refill()
	}
}

// setSocketOptions sets options that make the socket faster. A refusal is not an error; Info reports what was granted.
func (s *Socket) setSocketOptions() {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, s.cfg.SendBuffer) != nil {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, s.cfg.SendBuffer) // limited by net.core.wmem_max
	}
	s.info.TxBudget = MinTxBudget
	if budget := s.cfg.TxBudget; budget != 0 && setOption(s.fd, unix.XDP_MAX_TX_SKB_BUDGET, &budget) == nil {
		s.info.TxBudget = budget
	}
}

func (s *Socket) mapRings() error {
	var off unix.XDPMmapOffsets
	n, err := getOption(s.fd, unix.XDP_MMAP_OFFSETS, &off)
	if err != nil {
		return s.fail("read ring offsets", err)
	}
	if n < sizeofMmapOffsets {
		// Kernels before 5.4 do not report the flags word.
		return s.fail("read ring offsets", fmt.Errorf("%w: Linux 5.4 or later is needed", ErrNotSupported))
	}
	var rings Rings
	if rings.Rx, err = mapOne[Desc](s, "rx", unix.XDP_PGOFF_RX_RING, s.cfg.RxRing, &off.Rx); err != nil {
		return err
	}
	if rings.Tx, err = mapOne[Desc](s, "tx", unix.XDP_PGOFF_TX_RING, s.cfg.TxRing, &off.Tx); err != nil {
		return err
	}
	if rings.Fill, err = mapOne[uint64](s, "fill", unix.XDP_UMEM_PGOFF_FILL_RING, s.cfg.FillRing, &off.Fr); err != nil {
		return err
	}
	if rings.Completion, err = mapOne[uint64](s, "completion", unix.XDP_UMEM_PGOFF_COMPLETION_RING,
		s.cfg.CompletionRing, &off.Cr); err != nil {
		return err
	}
	s.setRings(rings)
	return nil
}

func mapOne[T Slot](s *Socket, name string, at int64, slots uint32, off *unix.XDPRingOffset) (RingMemory[T], error) {
	mem, ring, err := mapRing[T](s.fd, at, slots, off)
	if err != nil {
		return ring, s.fail("map the "+name+" ring", err)
	}
	s.mappings = append(s.mappings, mem)
	return ring, nil
}

// bindAddress returns the address for bind. A socket that shares a UMEM inherits the flags and must not set any.
func (s *Socket) bindAddress(sharer *Socket) *unix.SockaddrXDP {
	sa := &unix.SockaddrXDP{Ifindex: uint32(s.cfg.Ifindex), QueueID: s.cfg.Queue}
	if sharer != nil {
		sa.Flags = unix.XDP_SHARED_UMEM
		sa.SharedUmemFD = uint32(sharer.fd)
		return sa
	}
	switch s.cfg.Mode {
	case ModeCopy:
		sa.Flags = unix.XDP_COPY
	case ModeZeroCopy:
		sa.Flags = unix.XDP_ZEROCOPY
	case ModeAuto: // without a flag, the kernel tries zero-copy first and falls back by itself
	}
	if s.cfg.MultiBuffer {
		sa.Flags |= unix.XDP_USE_SG
	}
	return sa
}

func (s *Socket) bind(sharer *Socket) error {
	sa := s.bindAddress(sharer)
	deadline := time.Now().Add(s.cfg.BindTimeout)
	pause := bindRetryMin
	for {
		err := unix.Bind(s.fd, sa)
		if err == nil {
			s.bound = true
			return nil
		}
		if err == unix.EINVAL && sharer != nil && sharer.cfg.Ifindex == s.cfg.Ifindex && sharer.cfg.Queue == s.cfg.Queue {
			// The kernel would also share the rings of this socket, which is not wanted.
			return s.fail("bind to the queue of another socket on this UMEM", unix.EBUSY)
		}
		if err != unix.EBUSY || time.Until(deadline) < pause {
			return s.fail("bind "+s.cfg.Mode.String(), err)
		}
		// The kernel frees a queue some time after its last socket closed, and provides no event for it.
		time.Sleep(pause)
		pause = min(2*pause, bindRetryMax)
	}
}

// readInfo reads the properties that the kernel gave the socket.
func (s *Socket) readInfo() error {
	var flags uint32
	if _, err := getOption(s.fd, unix.XDP_OPTIONS, &flags); err != nil {
		return s.fail("read options", err)
	}
	s.info.ZeroCopy = flags&unix.XDP_OPTIONS_ZEROCOPY != 0
	s.info.MultiBuffer = s.cfg.MultiBuffer
	n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return s.fail("read the send buffer size", err)
	}
	s.info.SendBuffer = n
	return nil
}

// fail wraps an error with what was attempted, on which object, and what to do.
func (s *Socket) fail(op string, err error) error {
	hint, cause := explain(err)
	return &Error{Op: op, Ifindex: s.cfg.Ifindex, Queue: s.cfg.Queue, Err: cause, Hint: hint}
}

// explain returns the sentinel and the advice for an errno.
func explain(err error) (hint string, cause error) {
	switch {
	case errors.Is(err, unix.EBUSY):
		return "stop the other program or use another queue", fmt.Errorf("%w: %w", ErrQueueBusy, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "AF_XDP sockets need CAP_NET_RAW in the network namespace", fmt.Errorf("%w: %w", ErrPermission, err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return "build the kernel with CONFIG_XDP_SOCKETS", fmt.Errorf("%w: %w", ErrNotSupported, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return "use ModeCopy, or ModeAuto, on this driver", fmt.Errorf("%w: %w", ErrNotSupported, err)
	case errors.Is(err, unix.ENODEV):
		return "no interface has this index in the calling thread's network namespace", err
	case errors.Is(err, unix.ENETDOWN):
		return "bring the interface up", err
	case errors.Is(err, unix.ENXIO):
		return "the interface has gone", err
	case errors.Is(err, unix.EINVAL):
		return "the queue may not exist (see Inspect), or the kernel lacks an option (multi-buffer needs Linux 6.6)", err
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return "pinned memory is limited: grant CAP_IPC_LOCK, raise the limit (ulimit -l), or use fewer frames", err
	}
	return "", err
}
