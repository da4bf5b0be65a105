package provider

import (
	"fmt"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/completion"
)

// outstanding is a queue pair without an engine, with a request of each kind: SEND 0, READ 0 (unanswered), WRITE 1 (silent), SEND
// 1, SEND 2 (posted and not sent). Two receives are posted.
func outstanding() (qp *QP, r *completion.Reporter) {
	cq := NewCQ(16)
	qp = &QP{context: 5, recvCQ: cq, initCQ: cq, sq: newInitiatorQueue(8, 1, 0), rq: newReceiveQueue(4, 1)}
	for i, q := range []struct {
		kind   RequestKind
		number uint32
		flags  PostFlags
	}{{KindSend, 0, 0}, {KindRead, 0, 0}, {KindWrite, 1, FlagSilentSuccess}, {KindSend, 1, 0}, {KindSend, 2, 0}} {
		qp.sq.post(&Request{Kind: q.kind, Context: uint64(i), Flags: q.flags}, nil)
		qp.sq.wr(uint32(i)).number = q.number
	}
	qp.sq.next, qp.sq.off = 3, 1 // a part of SEND 1 was sent
	qp.rq.post(100, nil, 0)
	qp.rq.post(101, nil, 0)
	return qp, new(completion.Reporter)
}

// shown lists the results in the queue.
func shown(r *completion.Reporter, qp *QP) (all string) {
	r.Report(1)
	rs := make([]Result, 16)
	for _, res := range rs[:qp.initCQ.Fetch(rs)] {
		all += fmt.Sprintf("%d %v, ", res.RequestContext, res.Outcome)
	}
	return all
}

// The request that a TERM names is found by its message number among the requests that were sent. Requests without packets have no
// message number.
func TestOutstandingRequestIsNamed(t *testing.T) {
	qp, _ := outstanding()
	for seq := range uint32(5) {
		qp.sq.wr(seq).message = 70 + seq
	}
	qp.sq.wr(2).kind = KindBind
	for message, want := range map[uint32]int{69: -1, 70: 0, 71: 1, 72: -1, 73: 3, 74: -1} {
		if seq, ok := qp.named(message); ok != (want >= 0) || ok && int(seq) != want {
			t.Errorf("message %d: %d, %v", message, seq, ok)
		}
	}
}

func TestOutstandingRequestsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(qp *QP, r *completion.Reporter)
		want string
		left int
	}{
		"all":            {func(qp *QP, r *completion.Reporter) { qp.cancelAll(r, OutcomeIOTimeout) }, "0 I/O timeout, 1 canceled, 2 canceled, 3 canceled, 4 canceled, 100 canceled, 101 canceled, ", 0},
		"one":            {func(qp *QP, r *completion.Reporter) { qp.failAt(r, 2, OutcomeAccessViolation) }, "0 canceled, 1 canceled, 2 access violation, ", 2},
		"before a read":  {func(qp *QP, r *completion.Reporter) { qp.succeedBefore(r, 3) }, "0 success, ", 4},
		"silent success": {func(qp *QP, r *completion.Reporter) { qp.sq.wr(1).done = true; qp.succeedBefore(r, 4) }, "0 success, 1 success, 3 success, ", 1},
	} {
		qp, r := outstanding()
		c.end(qp, r)
		if got := shown(r, qp); got != c.want || qp.Outstanding() != c.left {
			t.Errorf("%s: %s%d left", name, got, qp.Outstanding())
		}
	}
}
