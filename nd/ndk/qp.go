package ndk

import (
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// QP is a queue pair: one end of a connection. Applications post requests to it, and results arrive in its completion queues. A call that
// fails gives no result. A call that succeeds gives one result, unless the request has silent success and succeeds. All methods may be
// called from any goroutine.
type QP struct {
	object
	pd *PD
	qp verbs.QP
}

// inner returns the adapter's own object for the queue pair, or nil for a nil queue pair.
func (q *QP) inner() *verbs.QP {
	if q == nil {
		return nil
	}
	return &q.qp
}

// Send posts a message to the peer's next Receive. Flags: silent success, read fence, solicit, inline, defer.
//
// Statuses: StatusSuccess; StatusConnectionInvalid, StatusBufferOverflow (longer than MaxTransferLength or the inline size),
// StatusDataOverrun (too many entries), StatusNoMoreEntries (queue full), StatusInvalidParameter (flags), StatusDeviceRemoved.
func (q *QP) Send(id uint64, sgl []SGE, flags OpFlags) Status {
	return q.send(provider.Request{Kind: provider.KindSend, Context: id, Flags: flags.engine()}, sgl, flags)
}

// SendAndInvalidate is Send, and the peer invalidates the window or fast-registered region that token names before it reports the message.
// If the token is not valid at the peer, the peer aborts the connection.
func (q *QP) SendAndInvalidate(id uint64, sgl []SGE, flags OpFlags, token Token) Status {
	return q.send(provider.Request{
		Kind: provider.KindSend, Context: id, Flags: flags.engine() | provider.FlagInvalidate, Token: provider.Token(token),
	}, sgl, flags)
}

func (q *QP) send(r provider.Request, sgl []SGE, flags OpFlags) Status {
	if flags&^(OpSilentSuccess|OpReadFence|OpSendAndSolicitEvent|OpInline|OpDefer) != 0 {
		return q.wrong()
	}
	return q.posted(verbs.Post(&q.qp, &r, sgl))
}

// Write posts an RDMA Write of the entries to the peer's memory at addr. token grants access to this memory. Flags: silent success, read
// fence, inline, defer. Statuses are those of Send.
func (q *QP) Write(id uint64, sgl []SGE, addr uint64, token Token, flags OpFlags) Status {
	if flags&^(OpSilentSuccess|OpReadFence|OpInline|OpDefer) != 0 {
		return q.wrong()
	}
	return q.posted(verbs.Post(&q.qp, &provider.Request{
		Kind: provider.KindWrite, Context: id, Flags: flags.engine(), Addr: addr, Token: provider.Token(token),
	}, sgl))
}

// Read posts an RDMA Read of the peer's memory into the entries. Reads beyond the outbound read limit may be posted; they wait. Flags:
// silent success, read fence, defer, and local invalidation, which is ignored. Statuses are those of Send, and StatusInvalidDeviceRequest
// if the outbound read limit is 0.
func (q *QP) Read(id uint64, sgl []SGE, addr uint64, token Token, flags OpFlags) Status {
	if flags&^(OpSilentSuccess|OpReadFence|OpRDMAReadLocalInvalidate|OpDefer) != 0 {
		return q.wrong()
	}
	return q.posted(verbs.Post(&q.qp, &provider.Request{
		Kind: provider.KindRead, Context: id, Flags: flags.engine(), Addr: addr, Token: provider.Token(token),
	}, sgl))
}

// Receive posts the entries for one message of the peer. It may be called before the queue pair is connected.
//
// Statuses: StatusSuccess; StatusBufferOverflow, StatusDataOverrun, StatusNoMoreEntries, StatusDeviceRemoved.
func (q *QP) Receive(id uint64, sgl []SGE) Status {
	return q.posted(verbs.Receive(&q.qp, id, sgl))
}

// Bind posts a request that binds window to buf, a part of region. The peer of this queue pair may then read buf if flags have
// OpAllowRemoteRead, and write it if they have OpAllowRemoteWrite. The peer names the bytes by their address in the region (MR.Address) and
// window.RemoteToken(), which is valid when Bind returns. Further flags: silent success, read fence, defer.
//
// Statuses: StatusSuccess; StatusConnectionInvalid, StatusNoMoreEntries, StatusAccessViolation (remote write to a region without local
// write), StatusInvalidParameter (flags, an object that is of another domain or closed, a range outside the region), StatusDeviceRemoved.
func (q *QP) Bind(id uint64, region *MR, window *MW, buf []byte, flags OpFlags) Status {
	const known = OpSilentSuccess | OpReadFence | OpAllowRemoteRead | OpAllowRemoteWrite | OpDefer
	if flags&^known != 0 || region == nil || region.pd != q.pd || region.ending() || window == nil || window.pd != q.pd || window.ending() {
		return q.wrong()
	}
	return q.posted(q.qp.Bind(id, region.current(), window.window, buf, flags.engine()))
}

// Invalidate posts a request that ends a window's binding to this queue pair, or a region's fast registration by it. To end a fast
// registration, it waits until all earlier requests are done. If there is no binding or registration when the request is carried out, the
// request ends with StatusInvalidDeviceRequest, and so does the connection. Flags: silent success, read fence, defer.
//
// Statuses: StatusSuccess; StatusConnectionInvalid, StatusNoMoreEntries, StatusInvalidParameter (flags, an object that is of another domain
// or closed, a region that is for Register), StatusDeviceRemoved.
func (q *QP) Invalidate(id uint64, what Invalidatable, flags OpFlags) Status {
	if flags&^(OpSilentSuccess|OpReadFence|OpDefer) != 0 || what == nil {
		return q.wrong()
	}
	window := what.invalidates(q.pd)
	if window == nil {
		return q.wrong()
	}
	return q.posted(q.qp.Invalidate(id, window, flags.engine()))
}

// wrong refuses a post with wrong flags or objects, which are checked before the state of the queue pair.
func (q *QP) wrong() Status { return statusTable[q.qp.Fail(verbs.OutcomeWrongArgument)] }

// posted makes the status of every posting call.
func (q *QP) posted(o provider.Outcome) Status { return statusTable[o] }

// Flush ends every outstanding request with StatusCancelled. The results are in the completion queues when it returns.
func (q *QP) Flush() { q.qp.Flush() }

// Close ends every outstanding request with StatusCancelled, and ends the connection. The queue pair ends when the connectors that used it
// are closed. Close never fails. done, which may be nil, is called if and only if Close returns StatusPending.
func (q *QP) Close(done CloseCompletion, context any) Status {
	return q.close(q.qp.Close, done, context)
}
