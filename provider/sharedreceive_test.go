package provider

import (
	"sync"
	"sync/atomic"
	"testing"
)

func (s *SharedReceiveQueue) mustPost(t *testing.T, context uint64, want Outcome) {
	t.Helper()
	if _, o := s.Post(context, []SGE{{Addr: context, Len: 1, Token: 1}}, 1); o != want {
		t.Fatalf("post %d: %v, want %v", context, o, want)
	}
}

// loneQP is a queue pair on s whose engine does not run.
func loneQP(s *SharedReceiveQueue) *QP {
	qp := &QP{lead: &Engine{}, srq: s, rq: newReceiveQueue(0, int(s.maxSGE))}
	qp.home.Store(qp.lead)
	return qp
}

// takeOne takes the oldest receive and completes it.
func takeOne(t *testing.T, s *SharedReceiveQueue, qp *QP) (context uint64) {
	t.Helper()
	if !s.dequeue(qp) {
		t.Fatal("nothing to take")
	}
	head := qp.rq.head.Load()
	if wr := qp.rq.wr(head); qp.rq.waiting() != 1 || wr.nsge > 0 && qp.rq.sgl(head)[0].Addr != wr.context {
		t.Fatalf("took %+v %+v", *wr, qp.rq.sgl(head))
	}
	context = qp.rq.wr(head).context
	qp.rq.head.Store(head + 1)
	return context
}

func TestSharedReceiveQueueLimits(t *testing.T) {
	s := NewSharedReceiveQueue(3, 2, 0)
	if _, o := s.Post(0, make([]SGE, 3), 0); o != OutcomeDataOverrun {
		t.Error(o)
	}
	if _, o := s.Post(0, nil, MaxTransfer+1); o != OutcomeBufferOverflow {
		t.Error(o)
	}
	for i := range uint64(3) {
		s.mustPost(t, i, OutcomeSuccess)
	}
	s.mustPost(t, 3, OutcomeNoMoreEntries)
	qp := loneQP(s)
	if got := takeOne(t, s, qp); got != 0 {
		t.Errorf("took %d first", got)
	}
	s.mustPost(t, 3, OutcomeSuccess)
	if _, o := qp.PostReceive(0, nil, 0); o != OutcomeNoMoreEntries {
		t.Errorf("a queue pair with a shared receive queue took a receive of its own: %v", o)
	}
}

func TestModifySharedReceiveQueue(t *testing.T) {
	s := NewSharedReceiveQueue(4, 2, 0)
	qp := loneQP(s)
	next, oldest := uint64(0), uint64(0)
	fill := func(depth int) {
		t.Helper()
		for s.Posted() < depth {
			s.mustPost(t, next, OutcomeSuccess)
			next++
		}
		s.mustPost(t, next, OutcomeNoMoreEntries)
	}
	empty := func(n int) {
		t.Helper()
		for range n {
			if got := takeOne(t, s, qp); got != oldest {
				t.Fatalf("took %d, want %d", got, oldest)
			}
			oldest++
		}
	}
	fill(4)
	empty(3) // so that the ring wraps
	fill(4)
	for _, depth := range []int{7, 100, 4, 9} {
		if o := s.Modify(depth, 0); o != OutcomeSuccess {
			t.Fatalf("depth %d: %v", depth, o)
		}
		fill(depth)
		if o := s.Modify(depth-1, 1); o != OutcomeBufferOverflow {
			t.Fatalf("depth %d below what is posted: %v", depth-1, o)
		}
		empty(depth - 3)
	}
	if o := s.Modify(0, 0); o != OutcomeSuccess || s.depth != 9 {
		t.Error(o, s.depth)
	}
	var told promise
	s.Arm(told.finish)
	if empty(3); told.times != 0 {
		t.Error("a Modify that failed left its threshold")
	}
}

func TestSharedReceiveQueueThreshold(t *testing.T) {
	s := NewSharedReceiveQueue(8, 1, 3)
	qp := loneQP(s)
	for i := range uint64(4) {
		s.mustPost(t, i, OutcomeSuccess)
	}
	var one, two, three promise
	s.Arm(one.finish)
	s.Arm(two.finish)
	takeOne(t, s, qp)
	if one.times != 0 {
		t.Fatal("three are not fewer than three")
	}
	takeOne(t, s, qp)
	one.must(t, OutcomeSuccess)
	two.must(t, OutcomeSuccess)
	s.Arm(three.finish) // the number is already below the threshold
	three.must(t, OutcomeSuccess)

	s.mustPost(t, 4, OutcomeSuccess)
	var raised, canceled, last promise
	s.Arm(raised.finish)
	if o := s.Modify(0, 4); o != OutcomeSuccess {
		t.Fatal(o)
	}
	raised.must(t, OutcomeSuccess)
	s.mustPost(t, 5, OutcomeSuccess)
	id := s.Arm(canceled.finish)
	s.Arm(last.finish)
	s.CancelWaiter(id, OutcomeCanceled)
	s.CancelWaiter(id, OutcomeCanceled)
	canceled.must(t, OutcomeCanceled)
	s.CancelWaiters(OutcomeDeviceRemoved)
	last.must(t, OutcomeDeviceRemoved)
}

func TestSharedReceiveQueueWithoutThresholdNeverNotifies(t *testing.T) {
	s := NewSharedReceiveQueue(8, 1, 0)
	var n promise
	s.Arm(n.finish)
	s.mustPost(t, 0, OutcomeSuccess)
	takeOne(t, s, loneQP(s))
	if n.times != 0 {
		t.Error("notified")
	}
}

// Waiting queue pairs are served in the order in which they came. If one leaves, the others are still served.
func TestSharedReceiveQueueLine(t *testing.T) {
	s := NewSharedReceiveQueue(8, 1, 0)
	qps := []*QP{loneQP(s), loneQP(s), loneQP(s), loneQP(s)}
	for _, qp := range append(qps, qps...) { // a second request does not change the order
		if s.dequeue(qp) {
			t.Fatal("took nothing")
		}
	}
	s.leave(qps[1])
	s.leave(qps[1])
	s.mustPost(t, 0, OutcomeSuccess) // qps[0]
	if s.dequeue(qps[1]) {
		t.Fatal("took a receive that was promised to another queue pair")
	}
	s.leave(qps[0]) // the receive goes to qps[2]
	if !s.hasPromised(qps[2]) || qps[2].lead.inbox.doorbells.Load() != qps[2] {
		t.Fatal("it was not handed on")
	}
	s.mustPost(t, 1, OutcomeSuccess)
	s.mustPost(t, 2, OutcomeSuccess)
	s.mustPost(t, 3, OutcomeSuccess)
	if !s.hasPromised(qps[3]) || !s.hasPromised(qps[1]) || s.free.Load() != 1 {
		t.Fatal("posts did not reach the line")
	}
	for i, who := range []int{3, 0, 1, 2} {
		if got := takeOne(t, s, qps[who]); got != uint64(i) {
			t.Errorf("took %d, want %d", got, i)
		}
	}
}

// Several engines take receives while several goroutines post them. Each receive goes to one engine, and no waiting engine is
// forgotten.
func TestSharedReceiveQueueConcurrently(t *testing.T) {
	const posters, takers, each = 3, 4, 3000
	s := NewSharedReceiveQueue(16, 1, 4)
	var seen [posters * each]atomic.Uint32
	var taken atomic.Int32
	done := make(chan struct{})
	var wg sync.WaitGroup
	for p := range uint64(posters) {
		wg.Go(func() {
			for i := uint64(0); i < each; {
				switch _, o := s.Post(p*each+i, []SGE{{Len: 1}}, 1); o {
				case OutcomeSuccess:
					i++
				case OutcomeNoMoreEntries:
					if i%7 == 0 {
						s.Modify(16+int(i%64), 0)
					}
				default:
					t.Errorf("%v", o)
					return
				}
			}
		})
	}
	for range takers {
		qp := loneQP(s)
		wg.Go(func() {
			defer s.leave(qp)
			for {
				select {
				case <-done:
					return
				default:
				}
				if qp.pool.inLineNow(s) && qp.lead.inbox.doorbells.Load() == nil {
					continue // an engine has nothing to do before the doorbell rings
				}
				if qp.lead.inbox.doorbells.Swap(nil) != nil {
					qp.rung.Store(false)
				}
				if s.dequeue(qp) {
					head := qp.rq.head.Load()
					seen[qp.rq.wr(head).context].Add(1)
					qp.rq.head.Store(head + 1)
					if taken.Add(1) == posters*each {
						close(done)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Fatalf("receive %d was taken %d times", i, n)
		}
	}
}

func (p *poolPlace) inLineNow(s *SharedReceiveQueue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.inLine
}
