package nd

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/ndxdp/ndxdp/provider"
)

var noAddr netip.AddrPort

// Error tells what was attempted, between which addresses, and why it failed. errors.Is finds the Status, and the cause
// behind it when there is one (a context's error, an operating system error).
type Error struct {
	Op     string         // the call: connect, accept, listen, …
	Local  netip.AddrPort // invalid when none is involved
	Remote netip.AddrPort // invalid when none is involved
	Status Status
	Err    error // the cause beneath the status, may be nil
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
		// Joined errors, of a failure and of the clean-up after it, are lines; an error here is one.
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

// Timeout says whether the peer was silent for too long, as net.Error asks.
func (e *Error) Timeout() bool { return e.Status.Timeout() }

// fail makes the error of a call on an object of the adapter, or nil for success. cause is what is beneath the status, when it is known;
// why an adapter ended is.
func (a *Adapter) fail(op string, local, remote netip.AddrPort, o provider.Outcome, cause error) error {
	if o == provider.OutcomeSuccess {
		return nil
	}
	if o == provider.OutcomeDeviceRemoved {
		cause = a.verbs.Cause()
	}
	return &Error{Op: op, Local: local, Remote: remote, Status: statusTable[o], Err: cause}
}

// errNoContext is behind the ErrInvalidParameter of a call that waits and was given nothing that could end the wait.
var errNoContext = errors.New("the context is nil: context.Background() waits however long it takes")

// checkContext refuses a nil context, before anything begins.
func checkContext(op string, ctx context.Context) error {
	if ctx == nil {
		return &Error{Op: op, Status: ErrInvalidParameter, Err: errNoContext}
	}
	return nil
}
