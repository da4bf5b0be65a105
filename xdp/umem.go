package xdp

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// FrameSize is the kernel's chunk size: one page. This is the largest chunk in aligned mode, and the unit into which the kernel
	// copies TX fragments.
	FrameSize = 4096
	// RxHeadroom is the room that the kernel leaves in front of received bytes in each frame (XDP_PACKET_HEADROOM).
	RxHeadroom = unix.XDP_PACKET_HEADROOM
	// RxFrameBytes is the number of packet bytes in one rx frame.
	RxFrameBytes = FrameSize - RxHeadroom

	frameMask = FrameSize - 1
)

// UMEMConfig sets the sizes of a UMEM. Several sockets share its frames.
type UMEMConfig struct {
	RxFrames   uint32 // default 2 x DefaultRxRing if TxFrames is zero, too
	TxFrames   uint32 // default DefaultTxRing if RxFrames is zero, too
	ArenaBytes int    // memory behind the frames that packets can be sent from; rounded up to whole frames
	// Shared puts the memory into an unnamed file (memfd_create), which UMEMFromFD maps in another process. UMEM.FD is its
	// descriptor.
	Shared bool
}

// UMEM is memory shared with the kernel: rx frames, tx frames, arena. Its size is fixed. All of it is pinned as soon as a socket
// uses it. Any goroutine may call methods that only read addresses, until Close.
type UMEM struct {
	mem       []byte // from mmap; slices of it are invalid after Close
	file      int    // memory file of a shared UMEM, or -1
	txBase    uint64
	arenaBase uint64

	opening sync.Mutex // held during Open, so that one socket registers the memory and later ones find it bound

	mu      sync.Mutex // guards the next fields
	rx, tx  spans
	sockets []*Socket // open sockets with reserved frames
	closed  bool
}

// layout holds the offsets of the parts of a UMEM, in bytes.
type layout struct{ txBase, arenaBase, size uint64 }

// layout checks the sizes and computes the offsets. Defaults of cfg must be set.
func (cfg *UMEMConfig) layout() (layout, error) {
	if cfg.ArenaBytes < 0 {
		return layout{}, fieldError("ArenaBytes", "is %d, want zero or more", cfg.ArenaBytes)
	}
	if cfg.ArenaBytes > math.MaxInt-FrameSize {
		return layout{}, fieldError("ArenaBytes", "is %d, more than can be mapped", cfg.ArenaBytes)
	}
	arena := (uint64(cfg.ArenaBytes) + frameMask) &^ uint64(frameMask)
	l := layout{txBase: uint64(cfg.RxFrames) * FrameSize}
	l.arenaBase = l.txBase + uint64(cfg.TxFrames)*FrameSize
	l.size = l.arenaBase + arena
	if uint64(cfg.RxFrames)+uint64(cfg.TxFrames) > math.MaxUint32 || l.size > math.MaxInt {
		return layout{}, fieldError("RxFrames, TxFrames, ArenaBytes", "add up to %d bytes, more than can be mapped", l.size)
	}
	return l, nil
}

// NewUMEM maps memory for frames and arena. The first socket opened on it registers it with the kernel.
func NewUMEM(cfg UMEMConfig) (*UMEM, error) {
	if cfg.RxFrames == 0 && cfg.TxFrames == 0 {
		cfg.RxFrames, cfg.TxFrames = 2*DefaultRxRing, DefaultTxRing
	}
	l, err := cfg.layout()
	if err != nil {
		return nil, err
	}
	if cfg.Shared {
		file, err := newMemoryFile(l.size)
		if err != nil {
			return nil, err
		}
		u, err := mapUMEM(&cfg, l, file, unix.MAP_SHARED)
		if err != nil {
			return nil, errors.Join(err, unix.Close(file))
		}
		u.file = file
		return u, nil
	}
	return mapUMEM(&cfg, l, -1, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
}

// mapUMEM maps the memory, from a file unless it is -1. It does not take ownership of the file.
func mapUMEM(cfg *UMEMConfig, l layout, file, flags int) (*UMEM, error) {
	mem, err := unix.Mmap(file, 0, int(l.size), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, &Error{Op: fmt.Sprintf("map %d bytes of UMEM", l.size), Err: err, Hint: "use fewer frames or a smaller arena"}
	}
	// The kernel pins these pages, so a forked child must not make them copy-on-write. Only old kernels lack the advice, and Go
	// never forks without exec, so a refusal does not matter.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	return &UMEM{
		mem:       mem,
		file:      -1,
		txBase:    l.txBase,
		arenaBase: l.arenaBase,
		rx:        newSpans(0, cfg.RxFrames),
		tx:        newSpans(cfg.RxFrames, cfg.TxFrames),
	}, nil
}

// Size returns the length of the whole mapping in bytes; UMEM addresses lie below it.
func (u *UMEM) Size() uint64 { return uint64(len(u.mem)) }

// Arena returns the memory after the last frame. Descriptors may name any part of it that does not cross a FrameSize
// boundary of its UMEM address.
func (u *UMEM) Arena() []byte { return u.mem[u.arenaBase:len(u.mem):len(u.mem)] }

// ArenaBase returns the UMEM address of the arena's first byte.
func (u *UMEM) ArenaBase() uint64 { return u.arenaBase }

// Frame returns the memory from addr to the end of its frame. The capacity ends there, too. It panics if addr lies outside the
// UMEM.
func (u *UMEM) Frame(addr uint64) []byte {
	end := (addr &^ uint64(frameMask)) + FrameSize
	return u.mem[addr:end:end]
}

// Bytes returns n bytes from addr, without further capacity. It panics if they do not lie inside the UMEM.
func (u *UMEM) Bytes(addr uint64, n int) []byte {
	end := addr + uint64(n)
	return u.mem[addr:end:end]
}

// Close unmaps the UMEM, which invalidates all slices of it. It fails while sockets are open. Further calls have no effect.
func (u *UMEM) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	if n := len(u.sockets); n != 0 {
		return &Error{Op: "close UMEM", Err: ErrInUse, Hint: fmt.Sprintf("close its %d sockets first", n)}
	}
	u.closed = true
	mem := u.mem
	u.mem = nil
	u.arenaBase = 0
	var errs []error
	if u.file >= 0 {
		errs = append(errs, unix.Close(u.file))
		u.file = -1
	}
	if err := unix.Munmap(mem); err != nil {
		errs = append(errs, &Error{Op: "unmap UMEM", Err: err})
	}
	return errors.Join(errs...)
}

// reserve reserves ranges of rx and tx frames for one socket.
func (u *UMEM) reserve(s *Socket, rxFrames, txFrames uint32) (rx, tx span, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return span{}, span{}, &Error{Op: "reserve frames", Err: fmt.Errorf("UMEM %w", ErrClosed)}
	}
	rx, ok := u.rx.take(rxFrames)
	if !ok {
		return span{}, span{}, &Error{
			Op:   fmt.Sprintf("reserve RxFrames=%d", rxFrames),
			Err:  ErrNoFrames,
			Hint: fmt.Sprintf("the largest unreserved range has %d: raise UMEMConfig.RxFrames", u.rx.largest()),
		}
	}
	tx, ok = u.tx.take(txFrames)
	if !ok {
		u.rx.give(rx)
		return span{}, span{}, &Error{
			Op:   fmt.Sprintf("reserve TxFrames=%d", txFrames),
			Err:  ErrNoFrames,
			Hint: fmt.Sprintf("the largest unreserved range has %d: raise UMEMConfig.TxFrames", u.tx.largest()),
		}
	}
	u.sockets = append(u.sockets, s)
	return rx, tx, nil
}

// release frees a socket's ranges.
func (u *UMEM) release(s *Socket, rx, tx span) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.Index(u.sockets, s)
	if i < 0 {
		return
	}
	u.sockets = slices.Delete(u.sockets, i, i+1)
	u.rx.give(rx)
	u.tx.give(tx)
}

// frameStack is a last-in first-out pool of frame addresses, so that the next frame is probably in the cache. Its array has one
// entry per frame. A push that does not fit is a double free and panics.
type frameStack struct {
	addrs []uint64
	n     int
}

func newFrameStack(s span) frameStack {
	f := frameStack{addrs: make([]uint64, s.count), n: int(s.count)}
	for i := range f.addrs {
		// Lowest address on top.
		f.addrs[i] = (uint64(s.start) + uint64(s.count) - 1 - uint64(i)) * FrameSize
	}
	return f
}

func (f *frameStack) push(addr uint64) {
	f.addrs[f.n] = addr
	f.n++
}

func (f *frameStack) pop() uint64 {
	f.n--
	return f.addrs[f.n]
}

// frameRange is the address range of one socket's pool.
type frameRange struct{ base, size uint64 }

func rangeOf(s span) frameRange {
	return frameRange{base: uint64(s.start) * FrameSize, size: uint64(s.count) * FrameSize}
}

func (r frameRange) contains(addr uint64) bool { return addr-r.base < r.size }
