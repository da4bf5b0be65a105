package xdp

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels for errors.Is. An error with one of these causes wraps the sentinel and the errno.
var (
	// ErrNotSupported means that the kernel or the driver does not support the requested feature.
	ErrNotSupported = errors.New("not supported by this kernel or driver")
	// ErrPermission means that a capability is missing. The text names it.
	ErrPermission = errors.New("permission denied")
	// ErrLockedMemory means that the process may not lock enough memory to pin the UMEM.
	ErrLockedMemory = errors.New("more memory to lock than this process may")
	// ErrQueueBusy means that another AF_XDP socket is bound to the NIC queue.
	ErrQueueBusy = errors.New("NIC queue is held by another AF_XDP socket")
	// ErrInvalidConfig means that a configuration field is invalid. The text names it.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrNoFrames means that the UMEM has no unreserved range of the requested size.
	ErrNoFrames = errors.New("not enough unreserved frames in the UMEM")
	// ErrInUse means that a UMEM cannot be unmapped because open sockets use it.
	ErrInUse = errors.New("still in use by open sockets")
	// ErrClosed means that the socket or the UMEM is closed.
	ErrClosed = errors.New("already closed")
)

// Error describes a failed operation: what was attempted, on which interface and queue, why it failed and what to do.
type Error struct {
	Op      string // what was attempted
	Ifindex int    // 0 if no interface is involved
	Queue   uint32
	Err     error  // an errno, or a sentinel that wraps one
	Hint    string // what to do; may be empty
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("xdp: ")
	b.WriteString(e.Op)
	if e.Ifindex != 0 {
		fmt.Fprintf(&b, " (interface index %d, queue %d)", e.Ifindex, e.Queue)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	if e.Hint != "" {
		b.WriteString(": ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

func fieldError(field, format string, args ...any) error {
	return fmt.Errorf("xdp: %w: %s %s", ErrInvalidConfig, field, fmt.Sprintf(format, args...))
}
