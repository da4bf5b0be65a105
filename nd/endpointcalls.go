package nd

import (
	"context"
	"fmt"

	"github.com/ndxdp/ndxdp/provider"
)

// Send sends p as one message and waits until it is in the memory of the peer, where Receive takes it. The length of p is at most
// EndpointConfig.MessageBytes. Send does not use p after it has returned.
//
// Messages arrive in the order of the calls, if one goroutine makes them. From its first call of Receive on, the peer stores up to 16
// messages, or EndpointConfig.Depth if that is less. If a further message waits for 2 s, the connection ends with CauseNoReceive.
//
// If ctx ends first, Send returns at once, and whether the message arrives is unknown. The connection goes on.
//
// Errors:
//   - ErrCanceled with the context's error if ctx ended, or with the Cause if the connection is over.
//   - ErrBufferOverflow if p is too long.
//   - ErrIOTimeout or ErrRemoteError if the peer could not take the message. The connection is then over.
//   - ErrNoMoreEntries if requests of the program's own fill the queue pair.
//   - ErrConnectionInvalid, ErrInsufficientResources, ErrDeviceRemoved.
func (e *Endpoint) Send(ctx context.Context, p []byte) error {
	if err := checkContext("send", ctx); err != nil {
		return err
	}
	if len(p) > e.dispatch.size {
		return e.tooLong(len(p))
	}
	return e.transfer(ctx, RequestSend, 0, p)
}

// Write copies p to offset off of the peer's memory (Peer) and waits until it is there. The program at the peer does nothing for that.
// The peer must have granted MRAllowRemoteWrite. p may have any length and is not used after Write has returned. The last bytes become
// visible last.
//
// If p is a part of Memory.Bytes(), it is sent without a copy, and must not change until Write has returned without an error.
//
// If ctx ends first, Write returns at once, and whether the bytes arrive is unknown. The connection goes on.
//
// Errors: as for Send, and ErrAccessViolation if the range is not inside the peer's memory. Without the right, the error is ErrAccessViolation
// with CauseRefusedThere, and the connection is over.
func (e *Endpoint) Write(ctx context.Context, off int, p []byte) error {
	return e.reach(ctx, RequestWrite, off, p)
}

// Read copies bytes at offset off of the peer's memory (Peer) to p, and fills p. The program at the peer does nothing for that. The peer
// must have granted MRAllowRemoteRead. p may have any length. Parts of EndpointConfig.MessageBytes bytes are read one by one, and the peer
// may change its memory between two parts.
//
// If p is a part of Memory.Bytes(), the bytes arrive there without a copy, and may do so until Read has returned without an error.
// If ctx ends first, Read returns at once, and the contents of p are undefined. The connection goes on.
//
// Errors: as for Write.
func (e *Endpoint) Read(ctx context.Context, off int, p []byte) error {
	return e.reach(ctx, RequestRead, off, p)
}

// reach reads or writes the peer's memory.
func (e *Endpoint) reach(ctx context.Context, kind RequestType, off int, p []byte) error {
	if err := checkContext(kind.String(), ctx); err != nil {
		return err
	}
	if err := e.checkRange(kind, off, len(p)); err != nil {
		return err
	}
	return e.transfer(ctx, kind, off, p)
}

// transfer carries out a call in as many requests as it takes. Each has a slot, and several are outstanding at a time.
func (e *Endpoint) transfer(ctx context.Context, kind RequestType, off int, p []byte) (err error) {
	if ctx.Err() != nil {
		return &Error{Op: kind.String(), Status: ErrCanceled, Err: context.Cause(ctx)}
	}
	part, in := e.dispatch.size, e.within(p)
	if in {
		part = provider.MaxTransfer
	} else if len(p) > maxInline || kind == RequestRead {
		if err := e.region(&e.dispatch.outgoing); err != nil {
			return err
		}
	}
	var outstanding []*request
	defer func() {
		for _, r := range outstanding {
			e.abandon(r)
		}
	}()
	for first := true; len(p) > 0 || first || len(outstanding) > 0; {
		if len(p) > 0 || first {
			s, err := e.slot(ctx, kind, len(outstanding) == 0)
			if err != nil {
				return err
			}
			if s != nil {
				n := min(part, len(p))
				r := &request{kind, p[:n], off, s, in}
				if err := e.start(r); err != nil {
					return err
				}
				outstanding, off, p, first = append(outstanding, r), off+n, p[n:], false
				continue
			}
		}
		r := outstanding[0]
		outstanding = outstanding[1:]
		if err := e.finish(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// slot takes a free slot. It waits for one only if the call has none, so that calls do not wait for each other; otherwise it returns nil if
// none is free.
func (e *Endpoint) slot(ctx context.Context, kind RequestType, wait bool) (*slot, error) {
	if wait {
		return take(ctx, e, &e.dispatch.free, kind.String())
	}
	e.dispatch.mu.Lock()
	defer e.dispatch.mu.Unlock()
	s, _ := e.dispatch.free.pop()
	return s, nil
}

// Receive waits for the next message of the peer's Send and copies it to p. It returns the length of the message.
//
// The first call posts receives for messages of up to EndpointConfig.MessageBytes, and every call renews them, so that messages may arrive
// between the calls. A program therefore uses either Receive or QueuePair.Receive. Messages that arrived before the end of the connection
// are returned before its error.
//
// If ctx ends first, no message is lost: a later call returns it.
//
// Errors:
//   - ErrBufferOverflow if p is shorter than the message. The message stays for the next call.
//   - ErrCanceled with the context's error if ctx ended, or with the Cause if the connection is over: CausePeerDisconnected if the peer called
//     Disconnect.
//   - ErrConnectionInvalid, ErrInsufficientResources, ErrDeviceRemoved.
func (e *Endpoint) Receive(ctx context.Context, p []byte) (int, error) {
	const op = "receive"
	if err := checkContext(op, ctx); err != nil {
		return 0, err
	}
	x := &e.dispatch
	if err := e.region(&x.incoming); err != nil {
		return 0, err
	}
	x.mu.Lock()
	err := e.postReceives()
	stuck := err != nil && x.posted == 0 && len(x.messages.ready) == 0
	x.mu.Unlock()
	if stuck {
		if e.end.over.Load() {
			err = e.failed(op, ErrCanceled)
		}
		return 0, err
	}
	r, err := take(ctx, e, &x.messages, op)
	if err != nil {
		return 0, err
	}
	n, number := int(r.Bytes), int(r.RequestID&^ownRequest)
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.Status == StatusSuccess && n > len(p) {
		x.messages.ready = append([]Result{r}, x.messages.ready...)
		x.wake(&x.messages)
		return n, &Error{Op: op, Status: ErrBufferOverflow, Err: fmt.Errorf("the received message has %d bytes, and the buffer only %d", n, len(p))}
	}
	x.idle = append(x.idle, number)
	if r.Status != StatusSuccess {
		return 0, e.failed(op, r.Status)
	}
	copy(p, x.incoming.Bytes()[number*x.size:][:n])
	_ = e.postReceives() // if that fails, the next call says so
	return n, nil
}

// postReceives posts a receive for every slot without one. The caller holds the lock of the dispatcher.
func (e *Endpoint) postReceives() error {
	x := &e.dispatch
	if x.closed {
		return &Error{Op: "receive", Status: ErrInvalidDeviceState}
	}
	for len(x.idle) > 0 {
		number := x.idle[len(x.idle)-1]
		if err := e.QueuePair.Receive(ownRequest|uint64(number), []SGE{x.incoming.SGE(number*x.size, x.size)}); err != nil {
			return err
		}
		x.idle, x.posted = x.idle[:len(x.idle)-1], x.posted+1
	}
	return nil
}
