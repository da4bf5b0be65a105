//go:build cgo

package main

// #include "ndxdp.h"
import "C"

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// completionQueue is a completion queue with a descriptor.
type completionQueue struct {
	verbs.CQ
	adapter *adapter
	woken   atomic.Bool // ndx_cq_wake ends a wait
	closed  atomic.Bool

	mu         sync.Mutex
	descriptor atomic.Pointer[signal] // made when it is asked for, with mu held
	notify     provider.Finish        // raises the descriptor
}

// queuePair is a queue pair. sharedQueue is a shared receive queue.
type (
	queuePair struct {
		verbs.QP
		adapter *adapter
		once    sync.Once
	}
	sharedQueue struct {
		verbs.SRQ
		adapter *adapter
	}
)

//export ndxgo_cq_create
func ndxgo_cq_create(h C.uint64_t, depth C.uint32_t, out *C.uint64_t) status {
	a, ok := adapters.get(h)
	switch {
	case !ok:
		return invalidHandle
	case !verbs.ValidCQDepth(int(depth)):
		return invalidParameter
	}
	if o := a.Create(verbs.ObjectCQ); o != provider.OutcomeSuccess {
		return statuses[o]
	}
	q := &completionQueue{adapter: a}
	q.Init(a.Adapter, int(depth))
	q.notify = func(provider.Outcome) {
		if d := q.descriptor.Load(); d != nil {
			d.raise()
		}
	}
	handle := cqs.put(q)
	if handle == 0 {
		q.close()
		return noResources
	}
	*out = C.uint64_t(handle)
	return success
}

//export ndxgo_cq_resize
func ndxgo_cq_resize(h C.uint64_t, depth C.uint32_t) status {
	q, ok := cqs.get(h)
	if !ok {
		return invalidHandle
	}
	return statuses[q.Resize(int(depth))]
}

func (q *completionQueue) close() {
	q.closed.Store(true)
	if q.Close() {
		q.adapter.Objects.Give(verbs.ObjectCQ)
	}
}

//export ndxgo_cq_close
func ndxgo_cq_close(h C.uint64_t) status {
	q, ok := cqs.take(h)
	if !ok {
		return invalidHandle
	}
	q.close()
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.descriptor.Swap(nil); d != nil {
		d.raise() // a program that waits now
		d.close()
	}
	return success
}

// over returns why an empty queue gets no more results, or success.
func (q *completionQueue) over() status {
	switch {
	case q.Faulted():
		return C.NDX_ERR_BUFFER_OVERFLOW
	case q.adapter.Closed():
		return C.NDX_ERR_DEVICE_REMOVED
	}
	return success
}

//export ndxgo_cq_poll
func ndxgo_cq_poll(h C.uint64_t, results *C.struct_ndx_result, n C.uint32_t) C.int32_t {
	q, ok := cqs.get(h)
	if !ok {
		return negative(invalidHandle)
	}
	got := verbs.Results(&q.CQ, unsafe.Slice(results, int(n)), putResults)
	if got == 0 {
		if s := q.over(); s != success {
			return negative(s)
		}
	}
	return C.int32_t(got)
}

func putResults(to []C.struct_ndx_result, from []provider.Result) {
	for i := range from {
		r, flags := &from[i], C.uint8_t(0)
		if r.HasImmediate {
			flags |= C.NDX_HAS_IMMEDIATE
		}
		if r.Solicited {
			flags |= C.NDX_WAS_SOLICITED
		}
		to[i] = C.struct_ndx_result{
			context: C.uint64_t(r.RequestContext), qp_context: C.uint64_t(r.QPContext), status: statuses[r.Outcome],
			bytes: C.uint32_t(r.Bytes), immediate: C.uint32_t(r.Immediate), _type: C.uint8_t(r.Kind), flags: flags,
		}
	}
}

//export ndxgo_cq_descriptor
func ndxgo_cq_descriptor(h C.uint64_t, fd *C.int, cause *C.char) status {
	q, ok := cqs.get(h)
	if !ok {
		return invalidHandle
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.descriptor.Load()
	if d == nil {
		var err error
		if d, err = newSignal(); err != nil {
			explain(cause, err)
			return noResources
		}
		q.descriptor.Store(d)
	}
	*fd = C.int(d.fd)
	return success
}

//export ndxgo_cq_arm
func ndxgo_cq_arm(h C.uint64_t, level C.uint32_t) C.int32_t {
	q, ok := cqs.get(h)
	if !ok {
		return negative(invalidHandle)
	}
	l, ok := verbs.Level(uint8(min(level, 255)))
	if !ok {
		return negative(invalidParameter)
	}
	if d := q.descriptor.Load(); d != nil {
		d.clear()
	}
	q.ArmOnce(l, q.notify)
	if !q.Empty() {
		return 1
	}
	return 0
}

// waits are calls of ndx_cq_wait, pooled so that waiting does not allocate.
var waits = sync.Pool{New: func() any {
	w := &wait{Wait: provider.NewWait()}
	w.finish, w.interrupt = w.Finish, w.Interrupt
	return w
}}

type wait struct {
	*provider.Wait
	finish    provider.Finish
	interrupt func()
}

//export ndxgo_cq_wait
func ndxgo_cq_wait(h C.uint64_t, level C.uint32_t, ms C.int32_t) C.int32_t {
	q, ok := cqs.get(h)
	if !ok {
		return negative(invalidHandle)
	}
	l, ok := verbs.Level(uint8(min(level, 255)))
	if !ok {
		return negative(invalidParameter)
	}
	w, _ := waits.Get().(*wait) // the pool has nothing else
	w.Reset()
	defer waits.Put(w)
	if ms >= 0 {
		defer time.AfterFunc(time.Duration(ms)*time.Millisecond, w.interrupt).Stop()
	}
	end := time.Now().Add(time.Duration(ms) * time.Millisecond)
	id := q.Arm(l, w.finish)
	if q.woken.Swap(false) {
		q.CancelWaiter(id, provider.OutcomeCanceled)
	}
	for !q.Sleep(w.Wait) {
		if ms >= 0 && !time.Now().Before(end) {
			q.CancelWaiter(id, provider.OutcomeCanceled)
		}
	}
	switch o := w.Outcome(); {
	case o == provider.OutcomeSuccess:
		return 1
	case o == provider.OutcomeCanceled && !q.closed.Load():
		q.woken.Store(false)
		return 0
	default:
		return negative(statuses[o])
	}
}

//export ndxgo_cq_wake
func ndxgo_cq_wake(h C.uint64_t) status {
	q, ok := cqs.get(h)
	if !ok {
		return invalidHandle
	}
	q.woken.Store(true)
	q.CancelWaiters(provider.OutcomeCanceled)
	q.notify(provider.OutcomeSuccess)
	return success
}

//export ndxgo_srq_create
func ndxgo_srq_create(h C.uint64_t, depth, sge C.uint32_t, out *C.uint64_t) status {
	a, ok := adapters.get(h)
	if !ok {
		return invalidHandle
	}
	c := verbs.SRQConfig{Depth: int(depth), MaxSGE: int(sge)}
	if c.Check() != verbs.ArgumentNone {
		return invalidParameter
	}
	if o := a.Create(verbs.ObjectSRQ); o != provider.OutcomeSuccess {
		return statuses[o]
	}
	q := &sharedQueue{adapter: a}
	q.Init(a.Adapter, c)
	handle := srqs.put(q)
	if handle == 0 {
		q.close()
		return noResources
	}
	*out = C.uint64_t(handle)
	return success
}

func (q *sharedQueue) close() {
	if q.Close() {
		q.adapter.Objects.Give(verbs.ObjectSRQ)
	}
}

//export ndxgo_srq_close
func ndxgo_srq_close(h C.uint64_t) status {
	q, ok := srqs.take(h)
	if !ok {
		return invalidHandle
	}
	q.close()
	return success
}

//export ndxgo_qp_create
func ndxgo_qp_create(h C.uint64_t, c *C.struct_ndx_qp_config, out *C.uint64_t) status {
	a, ok := adapters.get(h)
	if !ok {
		return invalidHandle
	}
	receive, ok := cqs.get(c.receive_cq)
	initiator, also := cqs.get(c.initiator_cq)
	if !ok || !also {
		return invalidHandle
	}
	cfg := verbs.QPConfig{
		ReceiveCQ: &receive.CQ, InitiatorCQ: &initiator.CQ, Context: uint64(c.context),
		ReceiveDepth: int(c.receive_depth), InitiatorDepth: int(c.initiator_depth),
		MaxReceiveSGE: int(c.receive_sge), MaxInitiatorSGE: int(c.initiator_sge), InlineSize: int(c.inline_size),
	}
	if c.srq != 0 {
		q, ok := srqs.get(c.srq)
		if !ok {
			return invalidHandle
		}
		cfg.FromShared, cfg.Shared = true, &q.SRQ
	}
	if a.CheckQP(&cfg) != verbs.ArgumentNone {
		return invalidParameter
	}
	if o := a.Create(verbs.ObjectQP); o != provider.OutcomeSuccess {
		return statuses[o]
	}
	q := &queuePair{QP: a.NewQP(&cfg), adapter: a}
	handle := qps.put(q)
	if handle == 0 {
		q.close()
		return noResources
	}
	*out = C.uint64_t(handle)
	return success
}

func (q *queuePair) close() {
	q.once.Do(func() { q.adapter.Objects.Give(verbs.ObjectQP) })
	q.Close()
}

//export ndxgo_qp_flush
func ndxgo_qp_flush(h C.uint64_t) status {
	q, ok := qps.get(h)
	if !ok {
		return invalidHandle
	}
	if q.adapter.Closed() {
		return C.NDX_ERR_DEVICE_REMOVED
	}
	q.Flush()
	return success
}

//export ndxgo_qp_close
func ndxgo_qp_close(h C.uint64_t) status {
	q, ok := qps.take(h)
	if !ok {
		return invalidHandle
	}
	q.close()
	return success
}
