package main

import (
	"context"
	"errors"
	"io"

	"github.com/ndxdp/ndxdp/nd"
)

// errGone is the cause when the receiver ended while the sender waited for input.
var errGone = errors.New("the receiver ended")

// untilGone returns a context that also ends when the connection ends, with the cause errGone. end stops the wait.
func untilGone(ctx context.Context, e *nd.Endpoint) (connected context.Context, end func()) {
	connected, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Connector.NotifyDisconnect(connected) // requests report how it ended
		cancel(errGone)
	}()
	return connected, func() {
		cancel(nil)
		<-ended
	}
}

// pieces is the number of reads ahead of sending. pieceLen is the largest size of a read.
const (
	pieces   = 8
	pieceLen = chunk / 4
)

// input is the data to send. A separate goroutine reads it, because a read of a terminal or a pipe may block forever, and the
// sender must react to an interruption.
type input struct {
	read  chan piece
	empty chan []byte // free buffers
	err   error       // error of the last read
}

type piece struct {
	data []byte
	err  error
}

// readAhead starts to read. The goroutine ends with ctx, except while a read blocks; nothing waits for it.
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
				if in.read <- (piece{buf[:n], err}); err != nil { // the channel has room for all buffers
					return
				}
			}
		}
	}()
	return in
}

// fill waits for input and copies as much as fits into buf, which has at least pieceLen bytes. It returns an error only after all
// data before the error.
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
