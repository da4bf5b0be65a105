package xdp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sealed is the set of seals of a memory file. Its length is fixed, so that no process can truncate it and so kill another process
// that maps it.
const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newMemoryFile makes an unnamed file of size bytes.
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

// FD returns the memory descriptor of a UMEM made with UMEMConfig.Shared, or -1. Close closes it.
func (u *UMEM) FD() int { return u.file }

// UMEMFromFD maps the memory of a UMEM that another process made with the same configuration. It takes ownership of the descriptor,
// and closes it on failure, too. It fails with ErrInvalidConfig if the length of the memory could change.
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

// SocketFromFD makes a Socket from a descriptor that another process opened, with the same configuration, on shared memory. The
// opening process must not have used the socket: the fill ring holds the first frames. info is the Info of the opening process.
// SocketFromFD takes ownership of the descriptor, and closes it on failure, too. It needs no privileges. No further sockets can be
// opened on u.
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
		return s.fail("map a shared socket", fmt.Errorf("%w: the fill ring of the socket already received %d frames", ErrInUse, filled))
	}
	for range filled {
		s.audit.move(s.rxFree.pop(), freeRx, inFill)
	}
	s.level.primed = true
	s.level.looked(filled)
	s.fillForDriver()
	return nil
}
