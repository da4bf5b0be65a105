package ndk

import (
	"math"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// asked is a request on a new end. It checks the status that the call returns, with or without a callback, and the status of the
// completion.
func asked(f func(e *end, done Completion, context any) Status, inline bool) provoke {
	return func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		p := ask(t, func(done Completion, context any) Status { return f(e, done, context) })
		if inline {
			p.finish(t)
			return p.inline
		}
		want(t, "without a callback", f(newEnd(t, r.a, 64), nil, nil), p.finish(t))
		return f(newEnd(t, r.a, 64), nil, nil)
	}
}

// unregistered leaves the end's region without memory.
func unregistered(e *end) *MR {
	_ = e.mr.Deregister(nil, nil)
	return e.mr
}

// bound binds a window to a region of a connected end.
func bound(t *testing.T, r *rig) *end {
	t.Helper()
	client, _ := r.connected(t)
	w, s := client.pd.CreateMW(nil, nil)
	created(t, w, s)
	t.Cleanup(func() { closed(t, w.Close) })
	want(t, "bind", client.qp.Bind(1, client.mr, w, client.mr.Bytes()[:64], 0), StatusSuccess)
	client.wantResult(t, 1, OperationBind, StatusSuccess)
	return client
}

var memoryRows = map[string]provoke{
	"MR/NDK_FN_REGISTER_MR/STATUS_SUCCESS": asked(func(e *end, done Completion, context any) Status {
		return unregistered(e).Register(make([]byte, 8), 0, done, context)
	}, false),
	"MR/NDK_FN_REGISTER_MR/STATUS_PENDING": asked(func(e *end, done Completion, context any) Status {
		return unregistered(e).Register(make([]byte, 8), 0, done, context)
	}, true),
	"MR/NDK_FN_REGISTER_MR/STATUS_INVALID_PARAMETER": asked(func(e *end, done Completion, context any) Status {
		return unregistered(e).Register(nil, 0, done, context)
	}, false),
	"MR/NDK_FN_REGISTER_MR/STATUS_ACCESS_VIOLATION": func(t *testing.T, r *rig) Status {
		mr := unregistered(newEnd(t, r.a, 64))
		readOnly := readOnly(t)
		want(t, "for remote write", mr.Register(readOnly, MRAllowRemoteWrite, nil, nil), StatusAccessViolation)
		want(t, "for reading", mr.Register(readOnly, MRAllowRemoteRead|MRDoNotSecureVM, nil, nil), StatusSuccess)
		want(t, "deregister", mr.Deregister(nil, nil), StatusSuccess)
		return mr.Register(readOnly, MRAllowLocalWrite, nil, nil)
	},
	"MR/NDK_FN_REGISTER_MR/STATUS_INVALID_DEVICE_STATE": asked(func(e *end, done Completion, context any) Status {
		return e.mr.Register(make([]byte, 8), 0, done, context)
	}, false),
	"MR/NDK_FN_REGISTER_MR/STATUS_INSUFFICIENT_RESOURCES": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		unregistered(e)
		for err := error(nil); err == nil; {
			_, err = r.a.verbs.Memory.Register(make([]byte, 1), 0)
		}
		return e.mr.Register(make([]byte, 8), 0, nil, nil)
	},
	"MR/NDK_FN_DEREGISTER_MR/STATUS_SUCCESS": asked(func(e *end, done Completion, context any) Status { return e.mr.Deregister(done, context) }, false),
	"MR/NDK_FN_DEREGISTER_MR/STATUS_PENDING": asked(func(e *end, done Completion, context any) Status { return e.mr.Deregister(done, context) }, true),
	"MR/NDK_FN_DEREGISTER_MR/STATUS_INVALID_DEVICE_STATE": asked(func(e *end, done Completion, context any) Status {
		return unregistered(e).Deregister(done, context)
	}, false),
	"MR/NDK_FN_DEREGISTER_MR/STATUS_DEVICE_BUSY": func(t *testing.T, r *rig) Status { return bound(t, r).mr.Deregister(nil, nil) },
	"MR/NDK_FN_GET_LOCAL_TOKEN_FROM_MR/(value)": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		if e.mr.LocalToken() == 0 || unregistered(e).LocalToken() != 0 {
			t.Error("no token, or one without memory")
		}
		return noStatus
	},
	"MR/NDK_FN_GET_REMOTE_TOKEN_FROM_MR/(value)": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		if e.mr.RemoteToken() == 0 || unregistered(e).RemoteToken() != 0 {
			t.Error("no token, or one without memory")
		}
		return noStatus
	},
	"MW/NDK_FN_GET_REMOTE_TOKEN_FROM_MW/(value)": func(t *testing.T, r *rig) Status {
		client, _ := r.connected(t)
		w, s := client.pd.CreateMW(nil, nil)
		created(t, w, s)
		defer closed(t, w.Close)
		before := w.RemoteToken()
		want(t, "bind", client.qp.Bind(1, client.mr, w, client.mr.Bytes()[:8], 0), StatusSuccess)
		if before != 0 || w.RemoteToken() == 0 {
			t.Errorf("tokens %x and %x", before, w.RemoteToken())
		}
		return noStatus
	},
}

// flushed leaves n results in the end's queue.
func (e *end) flushed(n int) {
	for i := range n {
		e.qp.Receive(uint64(i), nil)
	}
	e.qp.Flush()
}

var queueRows = map[string]provoke{
	"CQ/NDK_FN_RESIZE_CQ/STATUS_SUCCESS": asked(func(e *end, done Completion, context any) Status { return e.cq.Resize(8, done, context) }, false),
	"CQ/NDK_FN_RESIZE_CQ/STATUS_PENDING": asked(func(e *end, done Completion, context any) Status { return e.cq.Resize(8, done, context) }, true),
	"CQ/NDK_FN_RESIZE_CQ/STATUS_INVALID_PARAMETER": asked(func(e *end, done Completion, context any) Status {
		return e.cq.Resize(verbs.MaxCQDepth+1, done, context)
	}, false),
	"CQ/NDK_FN_RESIZE_CQ/STATUS_BUFFER_OVERFLOW": asked(func(e *end, done Completion, context any) Status {
		e.flushed(5)
		return e.cq.Resize(4, done, context)
	}, false),
	"CQ/NDK_FN_ARM_CQ/(none)": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		for _, level := range []NotifyType{NotifyErrors, NotifySolicited, NotifyAny, NotifyErrors} {
			e.cq.Arm(level)
		}
		e.flushed(2)
		want(t, "notification", receive(t, "notification", e.told), StatusSuccess)
		e.cq.Arm(NotifyAny) // earlier results were notified already
		want(t, "resize", e.cq.Resize(8, nil, nil), StatusSuccess)
		want(t, "a later callback", ask(t, func(done Completion, context any) Status { return e.cq.Resize(8, done, context) }).finish(t), StatusSuccess)
		if len(e.told) != 0 {
			t.Error("reported twice")
		}
		return noStatus
	},
	"CQ/NDK_FN_GET_CQ_RESULTS/(count)": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		e.flushed(3)
		var res [8]Result
		if n := e.cq.GetResults(res[:2]); n != 2 {
			t.Errorf("%d of 2", n)
		}
		if n := e.cq.GetResults(res[:]); n != 1 || res[0].RequestID != 2 || res[0].Status != StatusCancelled || e.cq.GetResults(res[:]) != 0 {
			t.Errorf("%d: %+v", n, res[0])
		}
		return noStatus
	},
	"CQ/NDK_FN_GET_CQ_RESULTS_EX/(count)": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		e.flushed(1)
		e.wantResult(t, 0, OperationReceive, StatusCancelled)
		return noStatus
	},
	"CQ/NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION/STATUS_SUCCESS": func(t *testing.T, r *rig) Status {
		return newEnd(t, r.a, 64).cq.ControlInterruptModeration(100, 4)
	},
	"CQ/NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION/STATUS_INVALID_PARAMETER_MIX": func(t *testing.T, r *rig) Status {
		return newEnd(t, r.a, 64).cq.ControlInterruptModeration(math.MaxUint32, math.MaxUint32)
	},
	"SRQ/NDK_FN_MODIFY_SRQ/STATUS_SUCCESS": asked(func(e *end, done Completion, context any) Status { return e.srq.Modify(8, 0, done, context) }, false),
	"SRQ/NDK_FN_MODIFY_SRQ/STATUS_PENDING": asked(func(e *end, done Completion, context any) Status { return e.srq.Modify(8, 0, done, context) }, true),
	"SRQ/NDK_FN_MODIFY_SRQ/STATUS_INVALID_PARAMETER": asked(func(e *end, done Completion, context any) Status {
		return e.srq.Modify(verbs.MaxSharedDepth+1, 0, done, context)
	}, false),
	"SRQ/NDK_FN_MODIFY_SRQ/STATUS_BUFFER_OVERFLOW": asked(func(e *end, done Completion, context any) Status {
		e.srq.Receive(1, nil)
		e.srq.Receive(2, nil)
		return e.srq.Modify(1, 0, done, context)
	}, false),
	"SRQ/NDK_FN_SRQ_RECEIVE/STATUS_SUCCESS": func(t *testing.T, r *rig) Status { return newEnd(t, r.a, 64).srq.Receive(1, nil) },
	"SRQ/NDK_FN_SRQ_RECEIVE/STATUS_NO_MORE_ENTRIES": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		for range 4 {
			want(t, "receive", e.srq.Receive(1, nil), StatusSuccess)
		}
		return e.srq.Receive(1, nil)
	},
	"SRQ/NDK_FN_SRQ_RECEIVE/STATUS_DATA_OVERRUN": func(t *testing.T, r *rig) Status {
		return newEnd(t, r.a, 64).srq.Receive(1, make([]SGE, provider.MaxSGE+1))
	},
	"SRQ/NDK_FN_SRQ_RECEIVE/STATUS_BUFFER_OVERFLOW": func(t *testing.T, r *rig) Status { return newEnd(t, r.a, 64).srq.Receive(1, tooMuch()) },
	"Callback/NDK_FN_CQ_NOTIFICATION_CALLBACK/STATUS_SUCCESS": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		e.cq.Arm(NotifySolicited)
		e.flushed(1)
		return receive(t, "notification", e.told)
	},
	"Callback/NDK_FN_CQ_NOTIFICATION_CALLBACK/STATUS_BUFFER_OVERFLOW": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		e.cq.Arm(NotifyErrors)
		for range 17 {
			e.flushed(16)
		}
		return receive(t, "notification", e.told)
	},
	"Callback/NDK_FN_SRQ_NOTIFICATION_CALLBACK/STATUS_SUCCESS": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		told := make(chan Status, 4)
		srq, s := e.pd.CreateSRQ(4, 1, 0, func(_ any, s Status) { told <- s }, nil, nil, nil)
		defer closed(t, created(t, srq, s).Close)
		want(t, "modify", srq.Modify(0, 2, nil, nil), StatusSuccess)
		return receive(t, "notification", told)
	},
}

// tooMuch is a list with more bytes than a request may have. Its number of entries, and the length of each entry, are allowed.
var tooMuch = sync.OnceValue(func() (sgl []SGE) {
	buf := make([]byte, provider.MaxTransfer/verbs.SGEFloor+1)
	for range verbs.SGEFloor {
		sgl = append(sgl, SGE{Buffer: buf})
	}
	return sgl
})
