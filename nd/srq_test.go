package nd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
)

// sharedRig is several queue pairs on one shared receive queue, each connected to a client.
type sharedRig struct {
	*rig
	srq     *SharedReceiveQueue
	pool    *MemoryRegion
	servers []*end
	clients []*end
}

const sharedBuf = 4096

func newSharedRig(t testing.TB, r *rig, conns, depth, threshold int) *sharedRig {
	t.Helper()
	s := &sharedRig{rig: r}
	var err error
	s.srq, err = r.b.CreateSharedReceiveQueue(depth, 1, threshold)
	must(t, err)
	s.pool, err = r.b.AllocateMemory(depth*sharedBuf, MRAllowLocalWrite)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(s.srq.Close(), s.pool.Close())) })
	for i := range conns {
		client, server := newEnd(t, r.a, sharedBuf), newEnd(t, r.b, 64)
		must(t, server.qp.Close())
		server.qp, err = r.b.CreateQueuePairWithSRQ(s.srq, QueuePairConfig{
			ReceiveCQ: server.cq, InitiatorCQ: server.cq, ID: uint64(i), InitiatorDepth: 16,
		})
		must(t, err)
		r.join(t, client, server)
		s.clients, s.servers = append(s.clients, client), append(s.servers, server)
	}
	return s
}

// offer posts the receive with this number.
func (s *sharedRig) offer(t testing.TB, n uint64) {
	t.Helper()
	must(t, s.srq.Receive(n, []SGE{s.pool.SGE(int(n)*sharedBuf, sharedBuf)}))
}

// say sends one byte from a client.
func (s *sharedRig) say(t testing.TB, conn int, v byte) {
	t.Helper()
	must(t, s.clients[conn].qp.Send(uint64(v), []SGE{{Buffer: []byte{v}}}, OpInline))
}

// heard checks that a message arrived on a connection of the server, in the receive with this number.
func (s *sharedRig) heard(t testing.TB, conn int, n uint64, v byte) {
	t.Helper()
	res := s.servers[conn].wantResult(t, n, RequestReceive, StatusSuccess)
	s.b.sync()
	if got := s.pool.Bytes()[n*sharedBuf]; res.QueuePairID != uint64(conn) || res.Bytes != 1 || got != v {
		t.Fatalf("connection %d: %+v with %d, want %d", conn, res, got, v)
	}
}

func TestClosedSharedReceiveQueue(t *testing.T) {
	r := commonRig(t)
	s, err := r.a.CreateSharedReceiveQueue(2, 1, 1)
	must(t, err)
	must(t, errors.Join(s.Close(), s.Close()))
	wantStatus(t, "receive", s.Receive(1, nil), ErrInvalidDeviceState)
	wantStatus(t, "modify", s.Modify(4, 0), ErrInvalidDeviceState)
	wantStatus(t, "notify", s.Notify(t.Context()), ErrCanceled)
}

func TestAdapterClosesWhileASharedReceiveQueueIsWatched(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	s, err := r.a.CreateSharedReceiveQueue(2, 1, 1)
	must(t, err)
	must(t, s.Receive(1, nil))
	waiting := start(func() error { return s.Notify(t.Context()) })
	eventually(t, "notify", func() bool { return s.srq.Waiting() == 1 })
	must(t, r.a.Close())
	wantStatus(t, "notify", finish(t, "notify", waiting), ErrDeviceRemoved)
	must(t, s.Close())
}

// The life of a pool: its receives are used in order, messages wait while it is empty, and the application is notified when few are
// left.
func TestSharedReceiveQueue(t *testing.T) {
	t.Parallel()
	for _, dp := range []Datapath{DatapathUDP, DatapathGeneric, DatapathNative} {
		t.Run(dp.String(), func(t *testing.T) {
			r := newRig(t, 1500, dp)
			s := newSharedRig(t, r, 3, 16, 2)
			for n := range uint64(3) {
				s.offer(t, n)
			}
			low := start(func() error { return s.srq.Notify(t.Context()) })
			eventually(t, "notify", func() bool { return s.srq.srq.Waiting() == 1 })
			for i, conn := range []int{2, 0} {
				s.say(t, conn, byte(i))
				s.heard(t, conn, uint64(i), byte(i))
			}
			wantStatus(t, "notify", finish(t, "notify", low), StatusSuccess)
			s.say(t, 1, 7)
			s.heard(t, 1, 2, 7)
			for conn := range 3 { // no receive is posted now
				s.say(t, conn, byte(10+conn))
				eventually(t, "pause", func() bool { return s.a.Stats().Connections.Pauses == uint64(conn+1) })
			}
			for conn := range 3 {
				s.offer(t, uint64(3+conn))
				s.heard(t, conn, uint64(3+conn), byte(10+conn))
			}
			if st := s.a.Stats(); st.Recovery.ResentReceive < 3 || s.b.Stats().Drops["no_receive"] < 3 { // one for each connection
				t.Errorf("%+v, %+v", st, s.b.Stats().Drops)
			}
		})
	}
}

// If a queue pair ends, other queue pairs keep their receives. The queue may be closed before its queue pairs.
func TestSharedReceiveQueueOutlivesAQueuePair(t *testing.T) {
	t.Parallel()
	s := newSharedRig(t, newRig(t, 1500, DatapathAuto), 2, 8, 0)
	for n := range uint64(3) {
		s.offer(t, n)
	}
	s.servers[0].qp.Flush()
	s.servers[0].wantNoResult(t)
	s.say(t, 0, 1)
	s.clients[0].wantResult(t, 1, RequestSend, ErrRemoteError)
	must(t, s.servers[0].qp.Close())
	s.say(t, 1, 2)
	s.heard(t, 1, 0, 2)
	must(t, s.srq.Close())
	s.say(t, 1, 3)
	s.heard(t, 1, 1, 3)
}

func TestNotifyOfASharedReceiveQueueIsCanceled(t *testing.T) {
	r := commonRig(t)
	s, err := r.a.CreateSharedReceiveQueue(2, 1, 0) // without a threshold no receive ends the wait
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := func(ctx context.Context, end func()) error {
		waiting := start(func() error { return s.Notify(ctx) })
		eventually(t, "notify", func() bool { return s.srq.Waiting() == 1 })
		end()
		return finish(t, "notify", waiting)
	}
	err = ended(ctx, cancel)
	wantStatus(t, "context", err, ErrCanceled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not tell of the context", err)
	}
	wantStatus(t, "canceled", ended(t.Context(), s.CancelOverlappedRequests), ErrCanceled)
	wantStatus(t, "closed", ended(t.Context(), func() { must(t, s.Close()) }), ErrCanceled)
}

// Many clients use a pool that is always too small. Goroutines refill it while messages arrive.
func TestSharedReceiveQueueUnderPressure(t *testing.T) {
	t.Parallel()
	const conns, each, depth = 6, 200, 4
	r, _ := newLoopRig(t, DatapathUDP)
	s := newSharedRig(t, r, conns, depth, 0)
	for n := range uint64(depth) {
		s.offer(t, n)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 2*conns)
	for i := range conns {
		wg.Go(func() { errs <- s.talk(t.Context(), s.clients[i], each) })
		wg.Go(func() { errs <- s.listen(t.Context(), s.servers[i], uint64(i), each) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		must(t, err)
	}
	if s.a.Stats().Connections.Pauses == 0 {
		t.Error("the pool was never empty")
	}
}

// talk sends numbered messages, with up to eight outstanding.
func (s *sharedRig) talk(ctx context.Context, e *end, each int) error {
	var res [16]Result
	for sent, done := 0, 0; done < each; {
		for ; sent < each && sent < done+8; sent++ {
			if err := e.qp.Send(uint64(sent), []SGE{{Buffer: []byte{byte(sent)}}}, OpInline); err != nil {
				return err
			}
		}
		n := e.cq.GetResults(res[:])
		for _, r := range res[:n] {
			if r.Status != StatusSuccess || r.RequestID != uint64(done) {
				return fmt.Errorf("%+v, want %d", r, done)
			}
			done++
		}
		if n == 0 {
			if err := e.cq.Notify(ctx, NotifyAny); err != nil {
				return err
			}
		}
	}
	return nil
}

// listen polls numbered messages and posts each receive again.
func (s *sharedRig) listen(ctx context.Context, e *end, qp uint64, each int) error {
	var res [4]Result
	for done := 0; done < each; {
		n := e.cq.GetResults(res[:])
		for _, r := range res[:n] {
			s.b.sync()
			if got := s.pool.Bytes()[r.RequestID*sharedBuf]; r.Status != StatusSuccess || r.QueuePairID != qp || got != byte(done) {
				return fmt.Errorf("%+v with %d, want %d", r, got, byte(done))
			}
			done++
			if err := s.srq.Receive(r.RequestID, []SGE{s.pool.SGE(int(r.RequestID)*sharedBuf, sharedBuf)}); err != nil {
				return err
			}
		}
		if n == 0 {
			if err := e.cq.Notify(ctx, NotifyAny); err != nil {
				return err
			}
		}
	}
	return nil
}

// A threshold above the depth of the queue notifies at once, also beyond 32 bits.
func TestSharedReceiveQueueTellsOfAnyThreshold(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, threshold := range []int{math.MaxUint32, math.MaxUint32 + 1, math.MaxInt} {
		s, err := r.a.CreateSharedReceiveQueue(2, 1, threshold)
		must(t, err)
		modified, err := r.a.CreateSharedReceiveQueue(2, 1, 0)
		must(t, err)
		must(t, modified.Modify(0, threshold))
		for what, q := range map[string]*SharedReceiveQueue{"created": s, "modified": modified} {
			n, err := q.Arm()
			must(t, err)
			if !n.over() {
				t.Errorf("%s with a threshold of %d: no notification for an empty queue", what, threshold)
			}
			must(t, q.Close())
		}
	}
}
