package provider

import (
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// SharedReceiveQueue is a pool of receives for any number of queue pairs, of one engine or of several. A SEND takes the
// oldest one when its first byte is executed. The mutex is held for one receive's copy: by posters, and by an engine
// once in a SEND, never once in a packet.
//
// A queue pair whose peer's SEND finds the pool empty waits in a line. Each receive that is posted while somebody waits is
// promised to the first in line, whose doorbell is rung: one receive makes one peer send again, not all of them. As long
// as somebody waits, every receive there is has been promised.
type SharedReceiveQueue struct {
	maxSGE uint32
	free   atomic.Uint32 // posted, neither taken nor promised; written under mu

	mu       sync.Mutex
	depth    uint32
	mask     uint32
	wrs      []receiveRequest
	sges     []SGE
	head     uint32 // oldest receive
	posted   uint32
	promised uint32
	first    *QP // the line of waiting queue pairs
	last     *QP
	low      outcome.Low
}

// poolPlace is a queue pair's place at its shared receive queue, whose mutex guards it.
type poolPlace struct {
	next, prev *QP
	inLine     bool
	promised   bool // one of the receives is for it
}

// NewSharedReceiveQueue makes a queue of depth receives with up to maxSGE entries each. A notification is due while
// fewer than threshold receives are posted; never when it is 0.
func NewSharedReceiveQueue(depth, maxSGE, threshold int) *SharedReceiveQueue {
	size := ringSize(depth)
	s := &SharedReceiveQueue{
		maxSGE: uint32(maxSGE), depth: uint32(depth), mask: size - 1,
		wrs: make([]receiveRequest, size), sges: make([]SGE, int(size)*maxSGE),
	}
	s.low.SetThreshold(threshold)
	return s
}

// Post adds a receive; any goroutine may call it. When ring is not nil, a peer of that queue pair waits for it: the
// caller makes its engine run.
func (s *SharedReceiveQueue) Post(context uint64, sgl []SGE, capacity uint32) (ring *QP, o Outcome) {
	if len(sgl) > int(s.maxSGE) {
		return nil, OutcomeDataOverrun
	}
	if capacity > MaxTransfer {
		return nil, OutcomeBufferOverflow
	}
	s.mu.Lock()
	if s.count() >= s.depth {
		s.mu.Unlock()
		return nil, OutcomeNoMoreEntries
	}
	i := s.posted & s.mask
	s.wrs[i] = receiveRequest{context: context, capacity: capacity, nsge: uint8(len(sgl))}
	copy(s.sges[i*s.maxSGE:], sgl)
	s.posted++
	s.low.Count(s.count())
	ring = s.promise()
	s.mu.Unlock()
	if ring != nil {
		ring.Push()
	}
	return ring, OutcomeSuccess
}

// Posted returns how many receives no SEND has taken yet.
func (s *SharedReceiveQueue) Posted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.count())
}

// count returns how many receives there are. The caller holds mu.
func (s *SharedReceiveQueue) count() uint32 { return s.posted - s.head }

// promise keeps a receive for the first in line, if there is one that nobody was promised. The caller holds mu, and rings
// the queue pair's doorbell.
func (s *SharedReceiveQueue) promise() (to *QP) {
	if s.first != nil && s.count() > s.promised {
		to = s.first
		s.leaveLine(to)
		to.pool.promised = true
		s.promised++
	}
	s.free.Store(s.count() - s.promised)
	return to
}

// dequeue moves the oldest receive into qp's own queue, or puts qp into the line and reports false. qp's engine calls it.
func (s *SharedReceiveQueue) dequeue(qp *QP) bool {
	s.mu.Lock()
	switch {
	case qp.pool.promised:
		qp.pool.promised = false
		s.promised--
	case s.count() == s.promised:
		s.joinLine(qp)
		s.mu.Unlock()
		return false
	}
	i := s.head & s.mask
	rq := &qp.rq // a ring of one
	rq.wrs[0] = s.wrs[i]
	copy(rq.sges, s.sges[i*s.maxSGE:][:s.wrs[i].nsge])
	s.head++
	s.free.Store(s.count() - s.promised)
	s.low.Count(s.count())
	s.mu.Unlock()
	rq.posted.Store(rq.posted.Load() + 1)
	return true
}

// hasPromised reports whether a receive is kept for qp.
func (s *SharedReceiveQueue) hasPromised(qp *QP) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return qp.pool.promised
}

// leave ends qp's waiting. Receives that were promised to it go to the next queue pair in line.
func (s *SharedReceiveQueue) leave(qp *QP) {
	s.mu.Lock()
	s.leaveLine(qp)
	if qp.pool.promised {
		qp.pool.promised = false
		s.promised--
	}
	next := s.promise()
	s.mu.Unlock()
	if next != nil {
		next.Push()
		if shard := next.Shard(); shard != nil {
			shard.Wake() // it may be at home elsewhere, asleep
		}
	}
}

func (s *SharedReceiveQueue) joinLine(qp *QP) {
	p := &qp.pool
	if p.inLine {
		return
	}
	p.inLine, p.prev = true, s.last
	if s.last != nil {
		s.last.pool.next = qp
	} else {
		s.first = qp
	}
	s.last = qp
}

func (s *SharedReceiveQueue) leaveLine(qp *QP) {
	p := &qp.pool
	if !p.inLine {
		return
	}
	if p.prev != nil {
		p.prev.pool.next = p.next
	} else {
		s.first = p.next
	}
	if p.next != nil {
		p.next.pool.prev = p.prev
	} else {
		s.last = p.prev
	}
	*p = poolPlace{promised: p.promised}
}

// Modify changes depth and threshold; 0 leaves a value as it is. A depth below the receives that are posted gives
// OutcomeBufferOverflow and changes nothing.
func (s *SharedReceiveQueue) Modify(depth, threshold int) Outcome {
	var wrs []receiveRequest
	var sges []SGE
	size := ringSize(depth)
	if depth > 0 {
		wrs, sges = make([]receiveRequest, size), make([]SGE, size*s.maxSGE)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if depth > 0 {
		if s.count() > uint32(depth) {
			return OutcomeBufferOverflow
		}
		for seq := s.head; seq != s.posted; seq++ {
			from, to := seq&s.mask, seq&(size-1)
			wrs[to] = s.wrs[from]
			copy(sges[to*s.maxSGE:], s.sges[from*s.maxSGE:][:s.maxSGE])
		}
		s.wrs, s.sges, s.mask, s.depth = wrs, sges, size-1, uint32(depth)
	}
	if threshold > 0 {
		s.low.SetThreshold(threshold)
		s.low.Count(s.count())
	}
	return OutcomeSuccess
}

// NotifyOnceFilled makes notifications wait until as many receives as the threshold says are posted, or Modify is given one.
func (s *SharedReceiveQueue) NotifyOnceFilled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.low.UntilFilled()
}

// Arm adds a waiting notification, which finishes when fewer receives are posted than the threshold says, at once when
// that is so already. It returns its id for CancelWaiter.
func (s *SharedReceiveQueue) Arm(fin Finish) (id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = s.low.Add(fin)
	s.low.Count(s.count())
	return id
}

// CancelWaiter finishes one waiting notification with o, if it still waits.
func (s *SharedReceiveQueue) CancelWaiter(id uint64, o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.low.Cancel(id, o)
}

// CancelWaiters finishes every waiting notification with o, oldest first.
func (s *SharedReceiveQueue) CancelWaiters(o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.low.Finish(o)
}
