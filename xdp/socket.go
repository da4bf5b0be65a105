package xdp

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Info describes the properties that a socket got.
type Info struct {
	ZeroCopy    bool // as reported by XDP_OPTIONS
	MultiBuffer bool
	SendBuffer  int    // bytes as the kernel accounts them: twice the requested value if it was granted
	TxBudget    uint32 // descriptors per sendto in copy mode
}

// Statistics are counts over the lifetime of the socket.
type Statistics struct {
	// Counted by the kernel (XDP_STATISTICS).
	RxDropped      uint64 // dropped for reasons other than the following
	RxInvalidDescs uint64 // bad addresses in the fill ring
	TxInvalidDescs uint64 // bad descriptors in the tx ring
	RxRingFull     uint64
	FillRingEmpty  uint64
	TxRingEmpty    uint64 // how often the kernel found nothing to send; not an error

	// RxWaiting is the number of frames in the rx ring now. It is not a total.
	RxWaiting uint64

	// Counted by this package.
	RxPackets, RxFrames uint64
	TxPackets, TxFrames uint64
	Completions         uint64
	Kicks               uint64 // sendto calls
	RxOversize          uint64 // packets with more frames than Receive could return
	TxLost              uint64 // packets that the device dropped (EBUSY)
	TxInvalid           uint64 // packets that Transmit took but did not send, because they were invalid
	TxStalled           uint64 // how often Kick gave up with descriptors left in the ring
}

// Add adds the statistics of another socket.
func (s *Statistics) Add(other *Statistics) {
	to, by := reflect.ValueOf(s).Elem(), reflect.ValueOf(other).Elem()
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + by.Field(i).Uint())
	}
}

// counters are written by the owner, once per batch. Any goroutine may read them.
type counters struct {
	rxPackets, rxFrames, txPackets, txFrames, completions atomic.Uint64
	kicks, rxOversize, txLost, txInvalid, txStalled       atomic.Uint64
}

// Socket is an AF_XDP socket. X1 defines its owner.
type Socket struct {
	// Constant from Open to Close.
	umem     *UMEM
	umemSize uint64
	cfg      Config
	info     Info
	fd       int // -1 if detached or closed
	maxFrags int
	rxRange  frameRange
	txRange  frameRange

	// Used by the owner for each batch.
	rx         Consumer[Desc]
	fill       Producer[uint64]
	tx         Producer[Desc]
	completion Consumer[uint64]
	level      fillLevel
	rxFree     frameStack
	txFree     frameStack
	rejected   frameStack // invalid descriptors that Transmit took, waiting for Complete
	txPending  uint32     // descriptors in the tx ring, in the kernel or in the completion ring

	// Used by the owner, rarely.
	kickErrno unix.Errno
	kickError error
	audit     audit

	counters counters

	// Written by Open and Close. Stats, which any goroutine may call, locks mu. The owner reads without the lock (X1).
	mu             sync.Mutex
	closed         bool
	last           Statistics // the kernel's counts at the time of Close
	mappings       [][]byte
	rxSpan, txSpan span
	bound          bool // other sockets may share the UMEM through this one; guarded by UMEM.opening
}

// FD returns the socket's descriptor, for an XSKMAP. It is -1 for a detached or closed socket.
func (s *Socket) FD() int { return s.fd }

// Info returns the properties that the socket got.
func (s *Socket) Info() Info { return s.info }

// UMEM returns the memory of the socket.
func (s *Socket) UMEM() *UMEM { return s.umem }

// Rings is the memory of a socket's four rings.
type Rings struct {
	Rx, Tx           RingMemory[Desc]
	Fill, Completion RingMemory[uint64]
}

// OpenDetached makes a socket with rings in ordinary memory, for tests. Package xdptest plays the kernel. Kick does nothing. The ring
// sizes of cfg are ignored.
func OpenDetached(u *UMEM, cfg Config, rings Rings) (*Socket, error) {
	cfg.RxRing, cfg.FillRing = uint32(len(rings.Rx.Slots)), uint32(len(rings.Fill.Slots))
	cfg.TxRing, cfg.CompletionRing = uint32(len(rings.Tx.Slots)), uint32(len(rings.Completion.Slots))
	cfg.setDefaults()
	if err := cfg.validateSizes(); err != nil {
		return nil, err
	}
	s := &Socket{umem: u, cfg: cfg, fd: -1}
	if err := s.reserve(); err != nil {
		return nil, err
	}
	s.info = Info{ZeroCopy: cfg.Mode == ModeZeroCopy, MultiBuffer: cfg.MultiBuffer, TxBudget: MinTxBudget}
	s.setRings(rings)
	s.Refill()
	s.fillForDriver()
	return s, nil
}

// reserve reserves frames from the UMEM for the socket and builds its pools.
func (s *Socket) reserve() error {
	rx, tx, err := s.umem.reserve(s, s.cfg.RxFrames, s.cfg.TxFrames)
	if err != nil {
		return err
	}
	s.umemSize = s.umem.Size()
	s.rxSpan, s.txSpan = rx, tx
	s.rxRange, s.txRange = rangeOf(rx), rangeOf(tx)
	s.rxFree, s.txFree = newFrameStack(rx), newFrameStack(tx)
	s.rejected = frameStack{addrs: make([]uint64, s.cfg.CompletionRing)}
	s.maxFrags = 1
	if s.cfg.MultiBuffer {
		s.maxFrags = MaxFrags
	}
	s.audit.start(rx, tx)
	return nil
}

func (s *Socket) setRings(r Rings) {
	s.rx, s.fill = NewConsumer(r.Rx), NewProducer(r.Fill)
	s.tx, s.completion = NewProducer(r.Tx), NewConsumer(r.Completion)
	s.level = newFillLevel(min(uint32(len(r.Fill.Slots)), s.cfg.RxFrames))
}

// Stats returns the kernel's counts and the counts of this package. Any goroutine may call it, concurrently with the owner. After
// Close it returns the last values.
func (s *Socket) Stats() (Statistics, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.last
	var err error
	if !s.closed && s.fd >= 0 {
		out, err = s.kernelStats()
	}
	// Waiting packets are read first. Packets received meanwhile are then counted twice, but not missed.
	out.RxWaiting = uint64(s.rx.mem.Producer.Load() - s.rx.mem.Consumer.Load())
	c := &s.counters
	out.RxPackets, out.RxFrames = c.rxPackets.Load(), c.rxFrames.Load()
	out.TxPackets, out.TxFrames = c.txPackets.Load(), c.txFrames.Load()
	out.Completions = c.completions.Load()
	out.Kicks = c.kicks.Load()
	out.RxOversize, out.TxLost = c.rxOversize.Load(), c.txLost.Load()
	out.TxInvalid, out.TxStalled = c.txInvalid.Load(), c.txStalled.Load()
	return out, err
}

func (s *Socket) kernelStats() (Statistics, error) {
	var k unix.XDPStatistics
	if _, err := getOption(s.fd, unix.XDP_STATISTICS, &k); err != nil {
		return Statistics{}, s.fail("read statistics", err)
	}
	return Statistics{
		RxDropped:      k.Rx_dropped,
		RxInvalidDescs: k.Rx_invalid_descs,
		TxInvalidDescs: k.Tx_invalid_descs,
		RxRingFull:     k.Rx_ring_full,
		FillRingEmpty:  k.Rx_fill_ring_empty_descs,
		TxRingEmpty:    k.Tx_ring_empty_descs,
	}, nil
}

// Close unbinds the socket, unmaps its rings and returns its frames to the UMEM. It must not run concurrently with another method
// of the owner (X1). Later calls of methods find empty rings. Further calls of Close have no effect, even concurrently. In copy
// mode no frame is in use when Close returns. A driver that sends from frames directly (zero-copy, or virtio-net) may still read
// frames that were in flight.
func (s *Socket) Close() error {
	// Open on the same UMEM may be binding through this descriptor at the same time.
	s.umem.opening.Lock()
	defer s.umem.opening.Unlock()
	return s.close()
}

func (s *Socket) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.bound = false
	var errs []error
	if s.fd >= 0 {
		var err error
		if s.last, err = s.kernelStats(); err != nil {
			errs = append(errs, err)
		}
		if err := unix.Close(s.fd); err != nil {
			errs = append(errs, s.fail("close", err))
		}
		s.fd = -1
	}
	s.setRings(Rings{
		Rx: NewRingMemory[Desc](0, 0), Tx: NewRingMemory[Desc](0, 0),
		Fill: NewRingMemory[uint64](0, 0), Completion: NewRingMemory[uint64](0, 0),
	})
	s.rxFree, s.txFree, s.rejected, s.txPending = frameStack{}, frameStack{}, frameStack{}, 0
	s.rxRange, s.txRange = frameRange{}, frameRange{}
	for _, mem := range s.mappings {
		if err := unix.Munmap(mem); err != nil {
			errs = append(errs, s.fail("unmap a ring", err))
		}
	}
	s.mappings = nil
	s.umem.release(s, s.rxSpan, s.txSpan)
	return errors.Join(errs...)
}

// sharer returns a bound socket whose UMEM registration a new socket can use, or nil. The caller holds u.opening, so this socket
// stays open until the new one is bound.
func (u *UMEM) sharer() *Socket {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.IndexFunc(u.sockets, func(s *Socket) bool { return s.bound })
	if i < 0 {
		return nil
	}
	return u.sockets[i]
}
