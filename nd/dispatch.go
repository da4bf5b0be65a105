package nd

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/ndxdp/ndxdp/provider"
)

const (
	// maxSlots bounds the requests that Send, Read and Write of an endpoint have outstanding, and the messages that wait for Receive.
	maxSlots = 16
	// defaultMessage is the default of EndpointConfig.MessageBytes.
	defaultMessage = 64 << 10
	// ownRequest marks the identifiers of requests that the blocking calls of an endpoint post. The low bits are the number of the slot.
	ownRequest = uint64(1) << 63
)

// dispatcher is the state of the blocking calls of an endpoint: Send, Receive, Read, Write and Result. Send, Read and Write copy through the
// slots of one region, and Receive copies through the slots of a second region. If the context of a call ends, the call returns at once, and
// its request goes on in the slot. The first call that needs a region makes it: clients that have not sent anything cost a listener no
// memory for them.
type dispatcher struct {
	waiters
	size     int // of a slot
	results  handoff[Result]
	unread   int  // number of results that may wait for Result
	overrun  bool // a result was dropped because unread results waited
	free     handoff[*slot]
	messages handoff[Result] // completed receives

	outgoing, incoming *MemoryRegion // nil before the first use
	slots              []slot        // of outgoing
	idle               []int         // slots of incoming without a posted receive
	posted             int           // slots of incoming with a posted receive
	closed             bool
}

// slot is one request of Send, Read or Write.
type slot struct {
	number    int
	posted    bool
	abandoned bool            // its call has returned
	result    handoff[Result] // at most one
}

// init prepares the calls of an endpoint with queues of a depth.
func (x *dispatcher) init(size, depth int) {
	n := max(min(depth, maxSlots), 1)
	x.size, x.unread = size, 2*max(depth, 1)
	x.slots, x.idle = make([]slot, n), make([]int, n)
	for i := range n {
		x.slots[i].number, x.idle[i] = i, i
		x.free.ready = append(x.free.ready, &x.slots[i])
	}
}

// collect hands over the next result, or sleeps until there may be one. Results that are in the queue come before the report that the
// connection is over.
func (e *Endpoint) collect(ctx context.Context, op string) error {
	over := e.end.over.Load() // loaded first: results from before the end are returned before the end is reported
	if over && !e.Adapter.closed() {
		// The poll that reported the end delivers its results when it finishes. A call on the engine after that poll finds them.
		e.Connector.k.Call(func() provider.Outcome { return provider.OutcomeSuccess })
	}
	var res [1]Result
	if e.Queue.GetResults(res[:]) > 0 {
		e.dispatch.hand(res[0])
		return nil
	}
	if over && !e.Adapter.closed() {
		return e.failed(op, ErrCanceled)
	}
	return e.await(ctx, op)
}

// hand delivers a result to the goroutine that waits for it.
func (x *dispatcher) hand(r Result) {
	x.mu.Lock()
	defer x.mu.Unlock()
	number := int(r.RequestID &^ ownRequest)
	switch own := r.RequestID&ownRequest != 0 && number >= 0 && number < len(x.slots); {
	case own && r.Type == RequestReceive && x.posted > 0:
		x.posted--
		put(&x.waiters, &x.messages, r)
	case own && r.Type != RequestReceive && x.slots[number].posted:
		s := &x.slots[number]
		if s.posted = false; s.abandoned {
			x.release(s)
		} else {
			put(&x.waiters, &s.result, r)
		}
	case len(x.results.ready) == x.unread:
		x.overrun = true
	default:
		put(&x.waiters, &x.results, r)
	}
}

// errUnread is the cause if results of posted requests were dropped.
var errUnread = errors.New("results were dropped: requests were posted without OpSilentSuccess, and Result was not called for them")

// dropped reports, once, whether results were dropped.
func (x *dispatcher) dropped() (yes bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	yes, x.overrun = x.overrun && len(x.results.ready) == 0, x.overrun && len(x.results.ready) > 0
	return yes
}

// release makes a slot free. The caller holds mu.
func (x *dispatcher) release(s *slot) {
	s.abandoned = false
	s.result.pop()
	put(&x.waiters, &x.free, s)
}

// region makes a region of slots that this side may write into. It is ordinary memory, so that a call that copies from it while Close
// runs reads bytes of this endpoint.
func (e *Endpoint) region(m **MemoryRegion) error {
	e.dispatch.mu.Lock()
	defer e.dispatch.mu.Unlock()
	if *m != nil || e.dispatch.closed {
		return nil // posting to a closed endpoint fails
	}
	made, err := e.Adapter.RegisterMemory(make([]byte, len(e.dispatch.slots)*e.dispatch.size), MRAllowLocalWrite)
	if err == nil {
		*m = made
	}
	return err
}

// close releases the regions.
func (x *dispatcher) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	var errs []error
	for _, m := range []*MemoryRegion{x.outgoing, x.incoming} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// within reports whether p is a part of the endpoint's Memory, which requests use without a copy.
func (e *Endpoint) within(p []byte) bool {
	all := e.Memory.Bytes()
	if len(p) == 0 || len(all) == 0 {
		return false
	}
	from, at := reflect.ValueOf(&all[0]).Pointer(), reflect.ValueOf(&p[0]).Pointer()
	return at >= from && at-from <= uintptr(len(all)-min(len(p), len(all))) && len(p) <= len(all)
}

// request is one request of a blocking call.
type request struct {
	kind RequestType
	p    []byte
	off  int // in the peer's memory
	slot *slot
	in   bool // p is a part of Memory
}

// start posts a request in its slot. If that fails, the slot is free.
func (e *Endpoint) start(r *request) error {
	x := &e.dispatch
	var sgl [1]SGE
	list, flags := sgl[:min(len(r.p), 1)], OpFlags(0)
	switch {
	case r.in:
		sgl[0] = SGE{r.p, e.Memory.LocalToken()}
	case r.kind != RequestRead && len(r.p) <= maxInline:
		sgl[0], flags = SGE{Buffer: r.p}, OpInline
	case x.outgoing == nil: // the endpoint is closed
		sgl[0] = SGE{Buffer: r.p}
	default:
		sgl[0] = x.outgoing.SGE(r.slot.number*x.size, len(r.p))
		if r.kind != RequestRead {
			copy(sgl[0].Buffer, r.p)
		}
	}
	x.mu.Lock()
	r.slot.posted = true
	x.mu.Unlock()
	id, at := ownRequest|uint64(r.slot.number), e.Peer.Address+uint64(r.off)
	var err error
	switch r.kind {
	case RequestSend:
		err = e.QueuePair.Send(id, list, flags)
	case RequestWrite:
		err = e.QueuePair.Write(id, list, at, e.Peer.Token, flags)
	default:
		err = e.QueuePair.Read(id, list, at, e.Peer.Token, flags)
	}
	if err != nil {
		x.mu.Lock()
		r.slot.posted = false
		x.release(r.slot)
		x.mu.Unlock()
	}
	return err
}

// finish waits for the end of a request.
func (e *Endpoint) finish(ctx context.Context, r *request) error {
	res, err := take(ctx, e, &r.slot.result, r.kind.String())
	if err != nil {
		e.abandon(r)
		return err
	}
	if res.Status == StatusSuccess && r.kind == RequestRead && !r.in {
		copy(r.p, e.dispatch.outgoing.Bytes()[r.slot.number*e.dispatch.size:])
	}
	e.dispatch.mu.Lock()
	e.dispatch.release(r.slot)
	e.dispatch.mu.Unlock()
	if res.Status != StatusSuccess {
		return e.failed(r.kind.String(), res.Status)
	}
	return nil
}

// abandon stops waiting for a request. Its slot becomes free when its result arrives.
func (e *Endpoint) abandon(r *request) {
	x := &e.dispatch
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.slot.posted {
		r.slot.abandoned = true
	} else {
		x.release(r.slot)
	}
}

// tooLong is the error of a message that exceeds the peer's receives.
func (e *Endpoint) tooLong(n int) error {
	return &Error{Op: "send", Status: ErrBufferOverflow, Err: fmt.Errorf(
		"the message has %d bytes, and EndpointConfig.MessageBytes is %d: raise it at both ends, or use Write", n, e.dispatch.size)}
}

// checkRange refuses a range outside the peer's memory, before it ends the connection.
func (e *Endpoint) checkRange(kind RequestType, off, n int) error {
	if off < 0 || uint64(off) > e.Peer.Length || uint64(n) > e.Peer.Length-uint64(off) {
		return &Error{Op: kind.String(), Status: ErrAccessViolation, Err: fmt.Errorf(
			"%d bytes at offset %d are not inside the %d bytes of the peer's memory", n, off, e.Peer.Length)}
	}
	return nil
}
