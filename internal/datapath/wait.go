package datapath

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// Wait implements provider.Waiter with ppoll(2) on the socket and an eventfd. It is an ordinary system call, so that the
// Go scheduler takes the processor away from the sleeping thread.
func (d *Datapath) Wait(timeout time.Duration, packets bool) {
	fds := [2]unix.PollFd{
		{Fd: int32(d.event), Events: unix.POLLIN},
		{Fd: int32(d.sock.FD()), Events: unix.POLLIN},
	}
	watch := fds[:1]
	if packets {
		watch = fds[:]
	}
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	// EINTR and all else count as a spurious return: the caller looks and waits again. A socket in error (interface gone)
	// would make that a spin, so its events end the wait only after a pause.
	n, err := unix.Ppoll(watch, ts, nil)
	if err != nil || n <= 0 {
		return
	}
	if fds[0].Revents != 0 {
		var b [8]byte
		_, _ = unix.Read(d.event, b[:]) // non-blocking; only the edge matters
	} else if fds[1].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
		_, _ = unix.Ppoll(fds[:1], &errorPause, nil)
	}
}

// errorPause is how often a socket in error is looked at.
var errorPause = unix.Timespec{Nsec: int64(10 * time.Millisecond)}

// Wake implements provider.Waiter.
func (d *Datapath) Wake() {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], 1)
	_, _ = unix.Write(d.event, b[:]) // fails only when the counter is full, and then it wakes anyway
}
