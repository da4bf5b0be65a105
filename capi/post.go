//go:build cgo

package main

// #include "ndxdp.h"
import "C"

import (
	"unsafe"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// sge is a scatter/gather entry of package verbs.
type sge struct {
	Buffer []byte
	Token  uint32
}

// list has the entries of one request.
type list [provider.MaxSGE]sge

// take converts the entries of a request. Entries beyond the largest number are dropped, and n is then too large for every queue pair.
func (l *list) take(from *C.struct_ndx_sge, n C.uint32_t) (sgl []sge, s status) {
	switch {
	case n == 0:
		return nil, success
	case n > provider.MaxSGE:
		return nil, C.NDX_ERR_DATA_OVERRUN
	case from == nil:
		return nil, invalidParameter
	}
	for i, e := range unsafe.Slice(from, int(n)) {
		buf, ok := bytesAt(*(*unsafe.Pointer)(unsafe.Pointer(&e.address)), uint64(e.length))
		if !ok {
			return nil, invalidParameter
		}
		l[i] = sge{buf, uint32(e.token)}
	}
	return l[:n], success
}

// allowed returns the flags that a type of request may have. ok is false for an unknown type.
func allowed(kind C.uint32_t) (flags provider.PostFlags, ok bool) {
	switch kind {
	case C.NDX_SEND:
		return C.NDX_SILENT | C.NDX_FENCE | C.NDX_SOLICIT | C.NDX_INLINE | C.NDX_DEFER | C.NDX_IMMEDIATE, true
	case C.NDX_WRITE:
		return C.NDX_SILENT | C.NDX_FENCE | C.NDX_INLINE | C.NDX_DEFER | C.NDX_IMMEDIATE, true
	case C.NDX_READ:
		return C.NDX_SILENT | C.NDX_FENCE | C.NDX_DEFER, true
	}
	return 0, false
}

//export ndxgo_post
func ndxgo_post(h C.uint64_t, requests *C.struct_ndx_request, n C.uint32_t, posted *C.uint32_t) status {
	q, ok := qps.get(h)
	if !ok {
		return invalidHandle
	}
	for i := range int(n) {
		r := (*C.struct_ndx_request)(unsafe.Add(unsafe.Pointer(requests), i*C.sizeof_struct_ndx_request))
		if s := q.post(r, i+1 < int(n)); s != success {
			return s
		}
		*posted = C.uint32_t(i + 1)
	}
	return success
}

// post posts a request. more says that another request follows.
func (q *queuePair) post(r *C.struct_ndx_request, more bool) status {
	var l list
	flags, ok := allowed(r._type)
	if !ok || uint32(r.flags)&^uint32(flags) != 0 {
		return q.refuse(invalidParameter)
	}
	sgl, s := l.take(r.sgl, r.nsge)
	if s != success {
		return q.refuse(s)
	}
	posted := provider.Request{
		Kind: provider.RequestKind(r._type), Context: uint64(r.context), Flags: provider.PostFlags(r.flags),
		Addr: uint64(r.peer_address), Token: provider.Token(r.peer_token), Immediate: uint32(r.immediate),
	}
	if more {
		posted.Flags |= provider.FlagDefer
	}
	return statuses[verbs.Post(&q.QP, &posted, sgl)]
}

// refuse ends a post that package verbs has not seen. Requests that were deferred before it start.
func (q *queuePair) refuse(s status) status {
	if o := q.Fail(provider.OutcomeInvalidRequest); o == provider.OutcomeDeviceRemoved {
		return statuses[o]
	}
	return s
}

//export ndxgo_receive
func ndxgo_receive(h C.uint64_t, receives *C.struct_ndx_receive, n C.uint32_t, posted *C.uint32_t) status {
	q, ok := qps.get(h)
	if !ok {
		return invalidHandle
	}
	return receiver{qp: &q.QP}.post(receives, n, posted)
}

//export ndxgo_shared_receive
func ndxgo_shared_receive(h C.uint64_t, receives *C.struct_ndx_receive, n C.uint32_t, posted *C.uint32_t) status {
	q, ok := srqs.get(h)
	if !ok {
		return invalidHandle
	}
	return receiver{srq: &q.SRQ}.post(receives, n, posted)
}

// receiver is a queue of receives: of a queue pair, or a shared one. It is no function, because entries of a request would then be allocated.
type receiver struct {
	qp  *verbs.QP
	srq *verbs.SRQ
}

// post posts n receives.
func (q receiver) post(receives *C.struct_ndx_receive, n C.uint32_t, posted *C.uint32_t) status {
	for i := range int(n) {
		r := (*C.struct_ndx_receive)(unsafe.Add(unsafe.Pointer(receives), i*C.sizeof_struct_ndx_receive))
		var l list
		sgl, s := l.take(r.sgl, r.nsge)
		switch {
		case s != success:
			return s
		case q.qp != nil:
			s = statuses[verbs.Receive(q.qp, uint64(r.context), sgl)]
		default:
			s = statuses[verbs.ReceiveShared(q.srq, uint64(r.context), sgl)]
		}
		if s != success {
			return s
		}
		*posted = C.uint32_t(i + 1)
	}
	return success
}
