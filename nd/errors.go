package nd

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/ndxdp/ndxdp/provider"
)

var noAddr netip.AddrPort

// Error describes a failed call: what was attempted, between which addresses, and why it failed. errors.Is finds the Status. It
// also finds the cause, if there is one: a context's error or an operating system error.
type Error struct {
	Op     string         // the call: connect, accept, listen, …
	Local  netip.AddrPort // invalid if no address is involved
	Remote netip.AddrPort // invalid if no address is involved
	Status Status
	Err    error // the cause of the status; may be nil
}

// Error implements error.
func (e *Error) Error() string {
	s := "nd: " + e.Op
	switch {
	case e.Local.IsValid() && e.Remote.IsValid():
		s += " " + e.Local.String() + "->" + e.Remote.String()
	case e.Remote.IsValid():
		s += " " + e.Remote.String()
	case e.Local.IsValid():
		s += " " + e.Local.String()
	}
	if e.Err != nil {
		// errors.Join puts each error on a line; this error is one line.
		return s + ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ") + " [" + e.Status.Name() + "]"
	}
	return s + ": " + e.Status.Error()
}

// Unwrap lets errors.Is and errors.As see the status and the cause.
func (e *Error) Unwrap() []error {
	if e.Err != nil {
		return []error{e.Status, e.Err}
	}
	return []error{e.Status}
}

// Timeout reports whether the peer was silent for too long. It implements net.Error.
func (e *Error) Timeout() bool { return e.Status.Timeout() }

// fail makes the error of a call on an object of the adapter, or nil for success. cause may be nil. If the adapter has ended, the cause
// is the reason for that.
func (a *Adapter) fail(op string, local, remote netip.AddrPort, o provider.Outcome, cause error) error {
	if o == provider.OutcomeSuccess {
		return nil
	}
	if o == provider.OutcomeDeviceRemoved {
		cause = a.verbs.Cause()
	}
	return &Error{Op: op, Local: local, Remote: remote, Status: statusTable[o], Err: cause}
}

// errNoContext is the cause of ErrInvalidParameter if a call that waits was given a nil context.
var errNoContext = errors.New("the context is nil: to wait without a limit, use context.Background()")

// checkContext refuses a nil context, before anything begins.
func checkContext(op string, ctx context.Context) error {
	if ctx == nil {
		return &Error{Op: op, Status: ErrInvalidParameter, Err: errNoContext}
	}
	return nil
}
