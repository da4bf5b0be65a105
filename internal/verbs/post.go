package verbs

import (
	"reflect"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/memfault"
	"github.com/ndxdp/ndxdp/provider"
)

// Entry is a scatter/gather entry with a surface's own token type. A surface's entries have the same fields.
type Entry[T ~uint32] struct {
	Buffer []byte
	Token  T
}

// entries constrains the elements of a surface's scatter/gather lists.
type entries[T ~uint32] interface {
	~struct {
		Buffer []byte
		Token  T
	}
}

// QP is a queue pair that applications post to. All methods may be called from any goroutine.
type QP struct {
	*provider.QP
	adapter *Adapter
}

// Every posting call first checks whether the adapter is closed. Otherwise a request could be queued and end with a result although the
// call failed.

// Post queues a Send, Write or Read with the bytes of sgl, and sets its length. Its flags were checked. The order of checks is state,
// entries, length, space (ND specification 11.1). A post that fails leaves nothing behind, but starts the requests that were deferred
// before it.
//
// Outcomes: OutcomeSuccess, OutcomeConnectionInvalid, OutcomeDataOverrun (entries), OutcomeBufferOverflow (bytes), OutcomeNoMoreEntries,
// OutcomeInvalidRequest (a Read that the read limits forbid), OutcomeDeviceRemoved.
func Post[S entries[T], T ~uint32](q *QP, r *provider.Request, sgl []S) provider.Outcome {
	if q.adapter.Closed() {
		return provider.OutcomeDeviceRemoved
	}
	total, o := lengthOf(sgl)
	r.Length = total
	switch {
	case r.Flags&provider.FlagInline != 0:
		return postInline(q, r, sgl)
	case o != provider.OutcomeSuccess:
		return q.refuse(o)
	case len(sgl) == 1:
		var one [1]provider.SGE
		translate(q.adapter, one[:], sgl)
		return q.posted(q.Post(r, one[:]))
	}
	var list [provider.MaxSGE]provider.SGE
	translate(q.adapter, list[:], sgl)
	return q.posted(q.Post(r, list[:len(sgl)]))
}

// copyNow copies bytes for a request. It fails if the process has lost the memory.
func copyNow(to, from []byte) bool {
	if len(from) == 0 || ofHeap(uint64(reflect.ValueOf(&from[0]).Pointer())) { // otherwise the slice itself would be moved to the heap
		copy(to, from)
		return true
	}
	return memfault.Try(from, func() { copy(to, from) })
}

// postInline queues a request and copies its bytes at once.
func postInline[S entries[T], T ~uint32](q *QP, r *provider.Request, sgl []S) provider.Outcome {
	var data [MaxInline]byte
	if r.Length > MaxInline {
		return q.refuse(provider.OutcomeBufferOverflow)
	}
	at := data[:]
	for i := range sgl {
		from := Entry[T](sgl[i]).Buffer
		if !copyNow(at, from) {
			return q.refuse(provider.OutcomeAccessViolation)
		}
		at = at[len(from):]
	}
	inline := *r
	inline.Inline = data[:r.Length]
	return q.posted(q.Post(&inline, nil))
}

// Receive queues a receive into the entries of sgl, in any state of the queue pair.
//
// Outcomes: OutcomeSuccess, OutcomeDataOverrun, OutcomeBufferOverflow, OutcomeNoMoreEntries, OutcomeDeviceRemoved.
func Receive[S entries[T], T ~uint32](q *QP, context uint64, sgl []S) provider.Outcome {
	if q.adapter.Closed() {
		return provider.OutcomeDeviceRemoved
	}
	total, o := lengthOf(sgl)
	if o != provider.OutcomeSuccess {
		return q.Fail(o)
	}
	var list [provider.MaxSGE]provider.SGE
	translate(q.adapter, list[:], sgl)
	return q.posted(q.PostReceive(context, list[:len(sgl)], total))
}

// Bind queues the binding of a window to buf, a part of region. A nil region is a region without a registration. State is checked before
// range and right.
//
// Outcomes: OutcomeSuccess, OutcomeConnectionInvalid, OutcomeOutside (buf is not a part of the region), OutcomeAccessViolation (the region
// lacks a right, or is gone), OutcomeNoMoreEntries, OutcomeDeviceRemoved.
func (q *QP) Bind(context uint64, region *provider.Region, window *provider.MemoryWindow, buf []byte, flags provider.PostFlags) provider.Outcome {
	if q.adapter.Closed() {
		return provider.OutcomeDeviceRemoved
	}
	off, ok := datapath.OffsetIn(region.Bytes(), buf)
	if !ok {
		return q.refuse(OutcomeOutside)
	}
	return q.posted(q.QP.Bind(&provider.BindRequest{
		Window: window, Region: region, Addr: region.Base() + uint64(off), Length: uint64(len(buf)), Context: context, Flags: flags,
	}))
}

// FastRegister queues a fast registration (provider.QP.FastRegister).
func (q *QP) FastRegister(r *provider.BindRequest, base uint64) provider.Outcome {
	if q.adapter.Closed() {
		return provider.OutcomeDeviceRemoved
	}
	return q.posted(q.QP.FastRegister(r, base))
}

// Invalidate queues the end of the access that a window, or a region for fast registration, grants.
//
// Outcomes: OutcomeSuccess, OutcomeConnectionInvalid, OutcomeNoMoreEntries, OutcomeDeviceRemoved.
func (q *QP) Invalidate(context uint64, w *provider.MemoryWindow, flags provider.PostFlags) provider.Outcome {
	if q.adapter.Closed() {
		return provider.OutcomeDeviceRemoved
	}
	return q.posted(q.QP.Invalidate(context, w, flags))
}

// refuse ends a post whose list or range is wrong. The state of the connection is checked first.
func (q *QP) refuse(o provider.Outcome) provider.Outcome {
	if state := q.CheckPost(); state != provider.OutcomeSuccess {
		o = state
	}
	return q.Fail(o)
}

// Fail ends a failed post. Requests that were deferred before it are sent, as after a successful post. It returns o, or that the adapter is
// closed.
func (q *QP) Fail(o provider.Outcome) provider.Outcome {
	if q.adapter.Closed() { // the engine has ended
		return provider.OutcomeDeviceRemoved
	}
	q.Push()
	q.Ring()
	return o
}

// posted ends every posting call.
func (q *QP) posted(ring bool, o provider.Outcome) provider.Outcome {
	switch {
	case o != provider.OutcomeSuccess:
		return q.Fail(o)
	case !ring:
		return o
	case q.adapter.Closed(): // the engine has ended
		return provider.OutcomeDeviceRemoved
	}
	q.Ring()
	return o
}

// Flush ends every outstanding request with OutcomeCanceled; the results are in the completion queues when it returns.
func (q *QP) Flush() { q.Own(func(*provider.Engine) { q.QP.Flush() }) }

// Close ends every outstanding request with OutcomeCanceled, and the connection. Closing twice is harmless.
func (q *QP) Close() { q.Own(func(*provider.Engine) { q.Release() }) }

// lengthOf adds up the bytes of a request's list. A list of inline bytes may have any number of entries.
func lengthOf[S entries[T], T ~uint32](sgl []S) (uint32, provider.Outcome) {
	total := uint64(0)
	for i := range sgl {
		total += uint64(len(Entry[T](sgl[i]).Buffer))
	}
	return transferLength(total, len(sgl))
}

// translate converts slices to addresses in regions.
func translate[S entries[T], T ~uint32](a *Adapter, dst []provider.SGE, sgl []S) {
	for i := range sgl {
		e := Entry[T](sgl[i])
		dst[i] = a.entry(e.Buffer, provider.Token(e.Token))
	}
}
