package xdp

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels for errors.Is. Every error of this package that has one of these causes wraps it, beside the errno.
var (
	// ErrNotSupported says that this kernel, or the driver of this interface, cannot do what was asked.
	ErrNotSupported = errors.New("not supported by this kernel or driver")
	// ErrPermission says that a capability is missing; the text names it.
	ErrPermission = errors.New("permission denied")
	// ErrLockedMemory says that the limit of locked memory does not let this process pin a UMEM.
	ErrLockedMemory = errors.New("more memory to lock than this process may")
	// ErrQueueBusy says that another AF_XDP socket holds the NIC queue.
	ErrQueueBusy = errors.New("NIC queue is held by another AF_XDP socket")
	// ErrInvalidConfig says that a configuration field has a value that cannot work; the text names the field.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrNoFrames says that the UMEM has no unreserved range of the size asked for.
	ErrNoFrames = errors.New("not enough unreserved frames in the UMEM")
	// ErrInUse says that a UMEM cannot be unmapped because sockets still use it.
	ErrInUse = errors.New("still in use by open sockets")
	// ErrClosed says that the socket or the UMEM was closed before.
	ErrClosed = errors.New("already closed")
)

// Error says what was attempted, on which interface and NIC queue, why it failed and what can be done about it.
type Error struct {
	Op      string // what was attempted
	Ifindex int    // 0 when no interface is involved
	Queue   uint32
	Err     error  // the cause: an errno, or a sentinel wrapped around one
	Hint    string // what to do, may be empty
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

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

func fieldError(field, format string, args ...any) error {
	return fmt.Errorf("xdp: %w: %s %s", ErrInvalidConfig, field, fmt.Sprintf(format, args...))
}
