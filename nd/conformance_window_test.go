package nd

import (
	"context"
	"testing"

	"github.com/ndxdp/ndxdp/internal/verbs"
)

// bound is a connection whose client has bound a window.
func bound(call func(t *testing.T, q *QueuePair, w *MemoryWindow, e, peer *end) error) provoke {
	return func(t *testing.T, r *rig) error {
		client, server := postEnd(t, r.a), postEnd(t, r.b)
		r.join(t, client, server)
		w := newWindow(t, r.a)
		must(t, client.qp.Bind(1, client.mr, w, client.mr.Bytes(), OpAllowRead|OpAllowWrite))
		client.wantResult(t, 1, RequestBind, StatusSuccess)
		return call(t, client.qp, w, client, server)
	}
}

// windowed is a connection with an unbound window.
func windowed(call func(t *testing.T, q *QueuePair, w *MemoryWindow, e, peer *end) error) provoke {
	return func(t *testing.T, r *rig) error {
		client, server := postEnd(t, r.a), postEnd(t, r.b)
		r.join(t, client, server)
		return call(t, client.qp, newWindow(t, r.a), client, server)
	}
}

// unbound posts a request with a window before the queue pair is connected.
func unbound(post func(q *QueuePair, w *MemoryWindow, e *end) error) provoke {
	return func(t *testing.T, r *rig) error {
		e := postEnd(t, r.a)
		return post(e.qp, newWindow(t, r.a), e)
	}
}

// bindAll binds a window to all memory of an end.
func bindAll(q *QueuePair, w *MemoryWindow, e *end) error {
	return q.Bind(1, e.mr, w, e.mr.Bytes(), OpAllowRead|OpAllowWrite)
}

func invalidate(q *QueuePair, w *MemoryWindow, _ *end) error { return q.Invalidate(1, w, 0) }

// blocked posts requests behind a Send that waits for a receive, until the queue is full.
func blocked(post func(q *QueuePair, w *MemoryWindow, e *end) error) provoke {
	return windowed(func(t *testing.T, q *QueuePair, w *MemoryWindow, e, _ *end) error {
		must(t, q.Send(1, nil, 0))
		for range 3 {
			must(t, post(q, w, e))
		}
		return post(q, w, e)
	})
}

// windowResult posts a request and returns the status of its result.
func windowResult(kind RequestType, state func(func(*testing.T, *QueuePair, *MemoryWindow, *end, *end) error) provoke,
	post func(q *QueuePair, w *MemoryWindow, e *end) error,
) provoke {
	return state(func(t *testing.T, q *QueuePair, w *MemoryWindow, e, _ *end) error {
		must(t, post(q, w, e))
		return statusOfResult(t, e, kind)
	})
}

// windowFlushed posts a request and returns the status of its result after a flush.
func windowFlushed(kind RequestType, post func(q *QueuePair, w *MemoryWindow, e *end) error) provoke {
	return windowed(func(t *testing.T, q *QueuePair, w *MemoryWindow, e, _ *end) error {
		must(t, q.Send(1, nil, 0)) // waits for a receive
		must(t, post(q, w, e))
		q.Flush()
		return statusOfResult(t, e, kind)
	})
}

func oneWindow(_ *testing.T, a *Adapter) error { _, err := a.CreateMemoryWindow(); return err }

var windowRows = map[string]provoke{
	"IND2Adapter/CreateMemoryWindow/ND_SUCCESS":                onFirst(oneWindow),
	"IND2Adapter/CreateMemoryWindow/ND_INSUFFICIENT_RESOURCES": exhausted(verbs.ObjectMW, oneWindow),
	"IND2Adapter/CreateMemoryWindow/ND_DEVICE_REMOVED": afterRemoval(func(_ context.Context, e, _ *end, _ *Listener) error {
		return oneWindow(nil, e.cq.adapter)
	}),
	"IND2MemoryRegion/Deregister/ND_DEVICE_BUSY": bound(func(t *testing.T, q *QueuePair, w *MemoryWindow, e, _ *end) error {
		err := e.mr.Deregister()
		must(t, invalidate(q, w, e))
		e.wantResult(t, 1, RequestInvalidate, StatusSuccess)
		wantStatus(t, "after Invalidate", e.mr.Deregister(), StatusSuccess)
		return err
	}),
	"IND2CompletionQueue/Result:Bind/ND_ACCESS_VIOLATION": windowed(func(t *testing.T, q *QueuePair, w *MemoryWindow, e, peer *end) error {
		must(t, q.Send(1, nil, 0)) // blocks the Bind
		must(t, bindAll(q, w, e))
		must(t, e.mr.Deregister())
		must(t, peer.qp.Receive(1, nil))
		return statusOfResult(t, e, RequestBind)
	}),
	"IND2MemoryWindow/GetRemoteToken/(value)": windowed(func(t *testing.T, q *QueuePair, w *MemoryWindow, e, peer *end) error {
		if w.RemoteToken() != 0 {
			t.Error("a window that was never bound has a token")
		}
		must(t, bindAll(q, w, e))
		token := w.RemoteToken() // before the Bind has a result
		e.wantResult(t, 1, RequestBind, StatusSuccess)
		must(t, peer.qp.Write(2, []SGE{peer.mr.SGE(0, 8)}, e.mr.Address(), token, 0))
		peer.wantResult(t, 2, RequestWrite, StatusSuccess)
		if _, writes := w.RemoteAccesses(); writes != 1 {
			t.Errorf("%d writes through the window", writes)
		}
		return nil
	}),

	"IND2QueuePair/Bind/ND_SUCCESS":            windowed(func(_ *testing.T, q *QueuePair, w *MemoryWindow, e, _ *end) error { return bindAll(q, w, e) }),
	"IND2QueuePair/Bind/ND_CONNECTION_INVALID": unbound(bindAll),
	"IND2QueuePair/Bind/ND_NO_MORE_ENTRIES":    blocked(bindAll),
	"IND2QueuePair/Bind/ND_ACCESS_VIOLATION": windowed(func(t *testing.T, q *QueuePair, w *MemoryWindow, e, _ *end) error {
		wantStatus(t, "other memory", q.Bind(1, e.mr, w, make([]byte, 8), 0), ErrAccessViolation)
		readOnly, err := e.cq.adapter.RegisterMemory(make([]byte, 64), 0)
		must(t, err)
		return q.Bind(1, readOnly, w, readOnly.Bytes(), OpAllowWrite)
	}),
	"IND2QueuePair/Bind/ND_INVALID_PARAMETER_2": windowed(func(t *testing.T, q *QueuePair, w *MemoryWindow, _, peer *end) error {
		wantStatus(t, "foreign", q.Bind(1, peer.mr, w, peer.mr.Bytes(), 0), ErrInvalidParameterN(2))
		return q.Bind(1, nil, w, nil, 0)
	}),
	"IND2QueuePair/Bind/ND_INVALID_PARAMETER_3": unbound(func(q *QueuePair, _ *MemoryWindow, e *end) error {
		return q.Bind(1, e.mr, nil, e.mr.Bytes(), 0)
	}),
	"IND2QueuePair/Bind/ND_INVALID_PARAMETER_6": unbound(func(q *QueuePair, w *MemoryWindow, e *end) error {
		return q.Bind(1, e.mr, w, e.mr.Bytes(), OpInline)
	}),
	"IND2QueuePair/Invalidate/ND_SUCCESS":            bound(func(_ *testing.T, q *QueuePair, w *MemoryWindow, e, _ *end) error { return invalidate(q, w, e) }),
	"IND2QueuePair/Invalidate/ND_CONNECTION_INVALID": unbound(invalidate),
	"IND2QueuePair/Invalidate/ND_NO_MORE_ENTRIES":    blocked(invalidate),
	"IND2QueuePair/Invalidate/ND_INVALID_PARAMETER_2": unbound(func(q *QueuePair, _ *MemoryWindow, _ *end) error {
		return q.Invalidate(1, nil, 0)
	}),
	"IND2QueuePair/Invalidate/ND_INVALID_PARAMETER_3": unbound(func(q *QueuePair, w *MemoryWindow, _ *end) error {
		return q.Invalidate(1, w, OpAllowRead)
	}),

	"IND2CompletionQueue/Result:Bind/ND_SUCCESS":                      windowResult(RequestBind, windowed, bindAll),
	"IND2CompletionQueue/Result:Bind/ND_CANCELED":                     windowFlushed(RequestBind, bindAll),
	"IND2CompletionQueue/Result:Bind/ND_INVALID_DEVICE_REQUEST":       windowResult(RequestBind, bound, bindAll),
	"IND2CompletionQueue/Result:Invalidate/ND_SUCCESS":                windowResult(RequestInvalidate, bound, invalidate),
	"IND2CompletionQueue/Result:Invalidate/ND_CANCELED":               windowFlushed(RequestInvalidate, invalidate),
	"IND2CompletionQueue/Result:Invalidate/ND_INVALID_DEVICE_REQUEST": windowResult(RequestInvalidate, windowed, invalidate),
}
