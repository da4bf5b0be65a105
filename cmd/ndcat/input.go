package main

import (
	"context"
	"errors"
	"io"

	"github.com/ndxdp/ndxdp/nd"
)

// errGone ends the wait for input when the receiver ended.
var errGone = errors.New("the receiver is gone")

// untilGone makes a context that also ends when the connection does, which errGone is the cause of, until end is called.
func untilGone(ctx context.Context, e *nd.Endpoint) (connected context.Context, end func()) {
	connected, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Connector.NotifyDisconnect(connected) // however it ended, requests say why
		cancel(errGone)
	}()
	return connected, func() {
		cancel(nil)
		<-ended
	}
}

// pieces is how many reads may be ahead of what is sent, and pieceLen what each takes at the most.
const (
	pieces   = 8
	pieceLen = chunk / 4
)

// input is what is to be sent. A goroutine of its own reads it, because a read of a terminal or a pipe may never end: who waits for it notices an
// interruption all the same.
type input struct {
	read  chan piece
	empty chan []byte // buffers to read into
	err   error       // of the last piece
}

type piece struct {
	data []byte
	err  error
}

// readAhead begins to read. The goroutine ends with ctx, but for a read that does not, which nothing waits for.
func readAhead(ctx context.Context, from io.Reader) *input {
	in := &input{read: make(chan piece, pieces), empty: make(chan []byte, pieces)}
	for range pieces {
		in.empty <- make([]byte, pieceLen)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case buf := <-in.empty:
				n, err := from.Read(buf)
				if in.read <- (piece{buf[:n], err}); err != nil { // there is room for all buffers
					return
				}
			}
		}
	}()
	return in
}

// fill waits for input and copies what is there, as far as it fits, into buf, which has room for a piece. The error comes when there is nothing before it.
func (in *input) fill(ctx context.Context, buf []byte) (n int, err error) {
	for in.err == nil && len(buf)-n >= pieceLen {
		var p piece
		select {
		case p = <-in.read:
		default:
			if n > 0 {
				return n, nil
			}
			select {
			case p = <-in.read:
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		n += copy(buf[n:], p.data)
		in.err = p.err
		in.empty <- p.data[:pieceLen]
	}
	if n > 0 {
		return n, nil
	}
	return 0, in.err
}
