package nd

import (
	"testing"
)

// posted posts a request on a connected queue pair with a depth of 4, 6 entries to send, 5 entries to receive, and 32 bytes inline.
func posted(post func(q *QueuePair, e, peer *end) error) provoke {
	return func(t *testing.T, r *rig) error {
		client, server := postEnd(t, r.a), postEnd(t, r.b)
		r.join(t, client, server)
		return post(client.qp, client, server)
	}
}

// unconnected posts a request before the queue pair is connected.
func unconnected(post func(q *QueuePair) error) provoke {
	return func(t *testing.T, r *rig) error { return post(postEnd(t, r.a).qp) }
}

// read posts a Read of zero bytes.
func read(q *QueuePair, list []SGE) error { return q.Read(1, list, 0, 0, 0) }

func write(q *QueuePair, list []SGE) error { return q.Write(1, list, 0, 0, 0) }

func send(q *QueuePair, list []SGE) error { return q.Send(1, list, 0) }

func receive(q *QueuePair, list []SGE) error { return q.Receive(1, list) }

// tooLong posts more bytes than a request may have. Its entries all name one buffer, which is never touched.
func tooLong(post func(q *QueuePair, list []SGE) error) provoke {
	return func(t *testing.T, r *rig) error {
		client, server := r.ends(t)
		var err error
		client.qp, err = r.a.CreateQueuePair(QueuePairConfig{
			ReceiveCQ: client.cq, InitiatorCQ: client.cq, ReceiveDepth: 1, InitiatorDepth: 1, MaxReceiveSGE: 16, MaxInitiatorSGE: 16,
		})
		must(t, err)
		r.join(t, client, server)
		const part = 64<<20 + 1
		m, err := r.a.RegisterMemory(make([]byte, part), 0)
		must(t, err)
		return post(client.qp, repeat(m.SGE(0, part), 16))
	}
}

// full posts until the queue is full. Sends are blocked, because the peer has no receive, and block the requests behind them.
func full(post func(q *QueuePair, list []SGE) error) provoke {
	return posted(func(q *QueuePair, _, _ *end) error {
		if err := q.Send(1, nil, 0); err != nil {
			return err
		}
		for range 3 {
			if err := post(q, nil); err != nil {
				return err
			}
		}
		return post(q, nil)
	})
}

var postRows = map[string]provoke{
	"IND2QueuePair/Flush/ND_SUCCESS": func(t *testing.T, r *rig) error {
		client, _ := r.connect(t, 4096)
		must(t, client.qp.Receive(1, nil))
		must(t, client.qp.Send(2, nil, 0))
		client.qp.Flush()
		var res [3]Result
		if n := client.cq.GetResults(res[:]); n != 2 || res[0].Status != ErrCanceled || res[1].Status != ErrCanceled {
			t.Errorf("%d results: %+v", n, res)
		}
		client.qp.Flush() // nothing is outstanding
		return nil
	},
	"IND2QueuePair/Send/ND_SUCCESS":            posted(func(q *QueuePair, e, _ *end) error { return send(q, []SGE{e.mr.SGE(0, 8)}) }),
	"IND2QueuePair/Send/ND_CONNECTION_INVALID": unconnected(func(q *QueuePair) error { return send(q, nil) }),
	"IND2QueuePair/Send/ND_BUFFER_OVERFLOW": func(t *testing.T, r *rig) error {
		inline := posted(func(q *QueuePair, e, _ *end) error { return q.Send(1, []SGE{e.mr.SGE(0, 33)}, OpInline) })
		wantStatus(t, "inline", inline(t, r), ErrBufferOverflow)
		return tooLong(send)(t, r)
	},
	"IND2QueuePair/Send/ND_NO_MORE_ENTRIES": full(send),
	"IND2QueuePair/Send/ND_DATA_OVERRUN":    posted(func(q *QueuePair, e, _ *end) error { return send(q, repeat(e.mr.SGE(0, 8), 7)) }),
	"IND2QueuePair/Send/ND_INVALID_PARAMETER_4": unconnected(func(q *QueuePair) error {
		return q.Send(1, nil, 8) // checked before the state
	}),

	"IND2QueuePair/Receive/ND_SUCCESS":         unconnected(func(q *QueuePair) error { return receive(q, nil) }),
	"IND2QueuePair/Receive/ND_BUFFER_OVERFLOW": tooLong(receive),
	"IND2QueuePair/Receive/ND_NO_MORE_ENTRIES": unconnected(func(q *QueuePair) error {
		for range 4 {
			if err := receive(q, nil); err != nil {
				return err
			}
		}
		return receive(q, nil)
	}),
	"IND2QueuePair/Receive/ND_DATA_OVERRUN": posted(func(q *QueuePair, e, _ *end) error { return receive(q, repeat(e.mr.SGE(0, 8), 6)) }),

	"IND2QueuePair/Read/ND_SUCCESS":            posted(func(q *QueuePair, e, _ *end) error { return read(q, []SGE{e.mr.SGE(0, 0)}) }),
	"IND2QueuePair/Read/ND_CONNECTION_INVALID": unconnected(func(q *QueuePair) error { return read(q, nil) }),
	"IND2QueuePair/Read/ND_BUFFER_OVERFLOW":    tooLong(read),
	"IND2QueuePair/Read/ND_NO_MORE_ENTRIES":    full(read),
	"IND2QueuePair/Read/ND_DATA_OVERRUN":       posted(func(q *QueuePair, e, _ *end) error { return read(q, repeat(e.mr.SGE(0, 8), 7)) }),
	"IND2QueuePair/Read/ND_INVALID_PARAMETER_6": posted(func(q *QueuePair, _, _ *end) error {
		return q.Read(1, nil, 0, 0, OpInline)
	}),
	"IND2QueuePair/Read/ND_INVALID_DEVICE_REQUEST": func(t *testing.T, r *rig) error {
		client, server := r.ends(t)
		l, at := listen(t, r.b, 0)
		connected := start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, ConnectParams{}) })
		must(t, l.GetConnectionRequest(t.Context(), server.ctr))
		accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, helloParams) })
		must(t, finish(t, "connect", connected))
		must(t, client.ctr.CompleteConnect(t.Context()))
		must(t, finish(t, "accept", accepted))
		return read(client.qp, nil)
	},

	"IND2QueuePair/Write/ND_SUCCESS":            posted(func(q *QueuePair, e, _ *end) error { return write(q, []SGE{e.mr.SGE(0, 0)}) }),
	"IND2QueuePair/Write/ND_CONNECTION_INVALID": unconnected(func(q *QueuePair) error { return write(q, nil) }),
	"IND2QueuePair/Write/ND_BUFFER_OVERFLOW":    tooLong(write),
	"IND2QueuePair/Write/ND_NO_MORE_ENTRIES":    full(write),
	"IND2QueuePair/Write/ND_DATA_OVERRUN":       posted(func(q *QueuePair, e, _ *end) error { return write(q, repeat(e.mr.SGE(0, 8), 7)) }),
	"IND2QueuePair/Write/ND_INVALID_PARAMETER_6": posted(func(q *QueuePair, _, _ *end) error {
		return q.Write(1, nil, 0, 0, OpSolicit)
	}),
}

// result posts a request on a connection and returns the status of the first result.
func result(kind RequestType, post func(t *testing.T, client, server *end)) provoke {
	return func(t *testing.T, r *rig) error {
		client, server := r.connect(t, 8192)
		post(t, client, server)
		return statusOfResult(t, client, kind)
	}
}

// statusOfResult waits for the result of a request of a kind.
func statusOfResult(t *testing.T, e *end, kind RequestType) error {
	t.Helper()
	for {
		if res := e.result(t); res.Type == kind {
			if res.Status == StatusSuccess {
				return nil
			}
			return res.Status
		}
	}
}

// silent is a connection whose peer falls silent before a request is posted.
func silent(kind RequestType, post func(t *testing.T, client, server *end)) provoke {
	return func(t *testing.T, _ *rig) error {
		r := newImpatientRig(t)
		return result(kind, func(t *testing.T, client, server *end) {
			r.setLink(t, r.pair.B, false)
			post(t, client, server)
		})(t, r)
	}
}

// flushed makes a request end with the connection.
func flushed(post func(t *testing.T, client, server *end)) func(t *testing.T, client, server *end) {
	return func(t *testing.T, client, server *end) {
		must(t, client.qp.Send(1, nil, 0)) // waits for a receive
		client.wantNoResult(t)
		post(t, client, server)
		client.qp.Flush()
		client.wantResult(t, 1, RequestSend, ErrCanceled)
	}
}

// throughFlushedWindow uses a window that ended with the peer's Flush. This is not an access violation by the initiator: the queue
// pair of the window is gone.
func throughFlushedWindow(kind RequestType) provoke {
	return windowed(func(t *testing.T, q *QueuePair, w *MemoryWindow, e, peer *end) error {
		must(t, bindAll(q, w, e))
		e.wantResult(t, 1, RequestBind, StatusSuccess)
		q.Flush()
		post := peer.qp.Read
		if kind == RequestWrite {
			post = peer.qp.Write
		}
		must(t, post(1, []SGE{peer.mr.SGE(0, 8)}, e.mr.Address(), w.RemoteToken(), 0))
		return statusOfResult(t, peer, kind)
	})
}

var resultRows = map[string]provoke{
	"IND2CompletionQueue/Result:Send/ND_SUCCESS": result(RequestSend, func(t *testing.T, client, server *end) {
		must(t, server.qp.Receive(1, nil))
		must(t, client.qp.Send(2, nil, 0))
	}),
	"IND2CompletionQueue/Result:Send/ND_ACCESS_VIOLATION": result(RequestSend, func(t *testing.T, client, server *end) {
		must(t, server.qp.Receive(2, []SGE{server.mr.SGE(0, 8)}))
		must(t, client.qp.Send(1, []SGE{{Buffer: client.mr.Bytes()[:8]}}, 0))
	}),
	"IND2CompletionQueue/Result:Send/ND_CANCELED": result(RequestSend, flushed(func(t *testing.T, client, _ *end) {
		must(t, client.qp.Send(2, nil, 0))
	})),
	"IND2CompletionQueue/Result:Send/ND_IO_TIMEOUT": result(RequestSend, func(t *testing.T, client, _ *end) {
		must(t, client.qp.Send(1, nil, 0)) // which has no receive
	}),
	"IND2CompletionQueue/Result:Send/ND_REMOTE_ERROR": result(RequestSend, func(t *testing.T, client, server *end) {
		must(t, server.qp.Receive(1, []SGE{server.mr.SGE(0, 8)}))
		must(t, client.qp.Send(2, []SGE{client.mr.SGE(0, 9)}, 0))
	}),

	"IND2CompletionQueue/Result:Receive/ND_SUCCESS": result(RequestReceive, func(t *testing.T, client, server *end) {
		must(t, client.qp.Receive(1, nil))
		must(t, server.qp.Send(2, nil, 0))
	}),
	"IND2CompletionQueue/Result:Receive/ND_BUFFER_OVERFLOW": result(RequestReceive, func(t *testing.T, client, server *end) {
		must(t, client.qp.Receive(1, []SGE{client.mr.SGE(0, 8)}))
		must(t, server.qp.Send(2, []SGE{server.mr.SGE(0, 9)}, 0))
	}),
	"IND2CompletionQueue/Result:Receive/ND_ACCESS_VIOLATION": result(RequestReceive, func(t *testing.T, client, server *end) {
		must(t, client.qp.Receive(1, []SGE{{Buffer: client.mr.Bytes()[:8]}}))
		must(t, server.qp.Send(2, []SGE{server.mr.SGE(0, 8)}, 0))
	}),
	"IND2CompletionQueue/Result:Receive/ND_CANCELED": result(RequestReceive, func(t *testing.T, client, _ *end) {
		must(t, client.qp.Receive(1, nil))
		client.qp.Flush()
	}),

	"IND2CompletionQueue/Result:Read/ND_SUCCESS": result(RequestRead, func(t *testing.T, client, server *end) {
		must(t, client.qp.Read(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	}),
	"IND2CompletionQueue/Result:Read/ND_ACCESS_VIOLATION": func(t *testing.T, r *rig) error {
		past := result(RequestRead, func(t *testing.T, client, server *end) { // D19: also past the end
			must(t, client.qp.Read(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address()+8185, server.mr.RemoteToken(), 0))
		})
		wantStatus(t, "past the end", past(t, r), ErrAccessViolation)
		return result(RequestRead, func(t *testing.T, client, server *end) {
			must(t, client.qp.Read(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken()+1, 0))
		})(t, r)
	},
	"IND2CompletionQueue/Result:Read/ND_REMOTE_ERROR":  throughFlushedWindow(RequestRead),
	"IND2CompletionQueue/Result:Write/ND_REMOTE_ERROR": throughFlushedWindow(RequestWrite),
	"IND2CompletionQueue/Result:Read/ND_CANCELED": result(RequestRead, flushed(func(t *testing.T, client, _ *end) {
		must(t, client.qp.Read(2, nil, 0, 0, 0))
	})),
	"IND2CompletionQueue/Result:Read/ND_IO_TIMEOUT": silent(RequestRead, func(t *testing.T, client, server *end) {
		must(t, client.qp.Read(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	}),

	"IND2CompletionQueue/Result:Write/ND_SUCCESS": result(RequestWrite, func(t *testing.T, client, server *end) {
		must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	}),
	"IND2CompletionQueue/Result:Write/ND_ACCESS_VIOLATION": result(RequestWrite, func(t *testing.T, client, server *end) {
		must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address()+8185, server.mr.RemoteToken(), 0))
	}),
	"IND2CompletionQueue/Result:Write/ND_CANCELED": result(RequestWrite, flushed(func(t *testing.T, client, _ *end) {
		must(t, client.qp.Write(2, nil, 0, 0, 0))
	})),
	"IND2CompletionQueue/Result:Write/ND_IO_TIMEOUT": silent(RequestWrite, func(t *testing.T, client, server *end) {
		must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	}),
}
