package xdp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sealed are the operations that a memory file forbids. Its length is fixed, so that no process can kill another process that
// maps it by truncating it.
const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newMemoryFile makes a file of size bytes that exists only by its descriptor.
func newMemoryFile(size uint64) (int, error) {
	op := fmt.Sprintf("make a memory file of %d bytes", size)
	file, err := unix.MemfdCreate("ndxdp UMEM", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, &Error{Op: op, Err: err}
	}
	if err := unix.Ftruncate(file, int64(size)); err != nil {
		return -1, errors.Join(&Error{Op: op, Err: err}, unix.Close(file))
	}
	if _, err := unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, sealed); err != nil {
		return -1, errors.Join(&Error{Op: op, Err: err}, unix.Close(file))
	}
	return file, nil
}

// FD returns the descriptor of the memory of a UMEM that was made with UMEMConfig.Shared, else -1. It ends with Close.
func (u *UMEM) FD() int { return u.file }

// AdoptUMEM maps the memory of a UMEM that another process made with the same configuration. It takes the descriptor over, and
// closes it on failure as well. The memory must have its length for good: ErrInvalidConfig if not.
func UMEMFromFD(file int, cfg UMEMConfig) (*UMEM, error) {
	u, err := umemFromFD(file, cfg)
	return u, errors.Join(err, unix.Close(file))
}

func umemFromFD(file int, cfg UMEMConfig) (*UMEM, error) {
	l, err := cfg.layout()
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(file, &stat); err != nil {
		return nil, &Error{Op: "map a shared UMEM", Err: err}
	}
	seals, err := unix.FcntlInt(uintptr(file), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 || uint64(stat.Size) != l.size {
		return nil, fieldError("file", "has %d bytes and seals %#x (%v), want %d bytes that cannot shrink", stat.Size, seals, err, l.size)
	}
	return mapUMEM(&cfg, l, file, unix.MAP_SHARED)
}

// SocketFromFD makes a Socket of a descriptor that another process opened with the same configuration on shared memory and has
// not used: the fill ring holds the first frames. info is the Info of the opening process. It takes the descriptor over, and
// closes it on failure as well. It needs no privileges. Opening further sockets on u is not possible.
func SocketFromFD(u *UMEM, cfg Config, fd int, info Info) (*Socket, error) {
	cfg.setDefaults()
	s := &Socket{umem: u, cfg: cfg, fd: fd, info: info}
	if err := s.initFromFD(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Socket) initFromFD() error {
	if err := s.cfg.Validate(); err != nil {
		return err
	}
	if err := s.reserve(); err != nil {
		return err
	}
	if err := s.mapRings(); err != nil {
		return err
	}
	filled := s.fill.next
	if filled > s.cfg.FillRing || filled > s.cfg.RxFrames {
		return s.fail("map a shared socket", fmt.Errorf("%w: its fill ring got %d frames", ErrInUse, filled))
	}
	for range filled {
		s.audit.move(s.rxFree.pop(), freeRx, inFill)
	}
	s.level.primed = true
	s.level.looked(filled)
	s.fillForDriver()
	return nil
}
