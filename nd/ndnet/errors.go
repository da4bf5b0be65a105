package ndnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/ndxdp/ndxdp/nd"
)

// fault is an error in the terms of package net, with the error of package nd behind it.
type fault struct {
	what  error // a syscall.Errno, or an error of packages net and os
	cause error
}

func (f *fault) Error() string {
	if f.cause == nil {
		return f.what.Error()
	}
	return f.what.Error() + ": " + f.cause.Error()
}

func (f *fault) Unwrap() []error { return []error{f.what, f.cause} }

// As lets errors.As find an *os.SyscallError, as in errors of package net.
func (f *fault) As(target any) bool {
	call, wanted := target.(**os.SyscallError)
	errno, known := f.what.(syscall.Errno)
	if wanted && known {
		*call = &os.SyscallError{Syscall: "nd", Err: errno}
	}
	return wanted && known
}

// Timeout reports whether waiting longer might have helped. It implements net.Error.
func (f *fault) Timeout() bool {
	t, ok := f.what.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// Temporary implements net.Error.
func (f *fault) Temporary() bool {
	t, ok := f.what.(interface{ Temporary() bool })
	return ok && t.Temporary()
}

// meanings maps errors of package nd to those of package net, the more specific ones first.
var meanings = []struct{ nd, net error }{
	{context.DeadlineExceeded, os.ErrDeadlineExceeded},
	{nd.ErrConnectionRefused, syscall.ECONNREFUSED},
	{nd.ErrIOTimeout, syscall.ETIMEDOUT},
	{nd.ErrHostUnreachable, syscall.EHOSTUNREACH},
	{nd.ErrNetworkUnreachable, syscall.ENETUNREACH},
	{nd.ErrSharingViolation, syscall.EADDRINUSE},
	{nd.ErrAddressAlreadyExists, syscall.EADDRINUSE},
	{nd.ErrTooManyAddresses, syscall.EADDRNOTAVAIL},
	{nd.ErrInvalidAddress, syscall.EADDRNOTAVAIL},
	{nd.ErrBadNetworkName, syscall.EADDRNOTAVAIL},
	{nd.ErrDeviceRemoved, syscall.ENETDOWN},
	{nd.ErrDeviceNotReady, syscall.ENETDOWN},
	{nd.ErrInsufficientResources, syscall.ENOBUFS},
	{nd.ErrNoMemory, syscall.ENOMEM},
	{nd.ErrConnectionAborted, syscall.ECONNABORTED},
	{nd.ErrConnectionInvalid, syscall.ENOTCONN},
	{nd.ErrCanceled, net.ErrClosed},
}

// meaning wraps an error of package nd with the corresponding error of package net.
func meaning(err error) error {
	var done *fault
	if err == nil || errors.As(err, &done) || errors.Is(err, context.Canceled) {
		return err
	}
	for _, m := range meanings {
		if errors.Is(err, m.nd) {
			return &fault{m.net, err}
		}
	}
	return err
}

// errNil is the error for a nil argument.
var errNil error = &fault{syscall.EINVAL, nd.ErrInvalidParameter}

// lost returns why a connection that ended with err is over. Outstanding requests end as canceled both when the peer goes away and when the own
// adapter ends; the adapter's reason says more.
func (c *Conn) lost(err error) error {
	why := c.network.adapter.Removed()
	switch {
	case errors.Is(err, nd.ErrDeviceRemoved):
		return &fault{syscall.ENETDOWN, err}
	case errors.Is(err, nd.ErrIOTimeout):
		return &fault{syscall.ETIMEDOUT, err}
	case why != nil:
		return &fault{syscall.ENETDOWN, &nd.Error{Op: "transfer", Status: nd.ErrDeviceRemoved, Err: why}}
	}
	return &fault{syscall.ECONNRESET, err}
}

// violated returns the error for a peer that breaks the protocol.
func violated(err error) error { return &fault{syscall.EPROTO, err} }

// opError wraps the error of a call on a connection, as package net does.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "nd", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
