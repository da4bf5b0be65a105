package completion

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

// Queues of every size and fill level are resized. No result is lost or out of order.
func TestResizeKeepsResults(t *testing.T) {
	var reporter Reporter
	resize := func(q *Queue, depth int) {
		if o := q.Resize(depth); o != outcome.Success {
			t.Fatal(o)
		}
	}
	var in, out uint64
	q := NewQueue(1)
	var res [8]Result
	check := func(n int) {
		t.Helper()
		for _, r := range res[:q.Fetch(res[:n])] {
			if r.RequestContext != out {
				t.Fatalf("result %d, want %d", r.RequestContext, out)
			}
			out++
		}
	}
	for step := range 2000 {
		depth := 1 + step*7%13
		switch queued := int(in - out); {
		case queued > depth:
			if o := q.Resize(depth); o != outcome.BufferOverflow {
				t.Fatalf("%d queued, resized to %d: %v", queued, depth, o)
			}
			depth = queued
			resize(q, depth)
		default:
			resize(q, depth)
		}
		for int(in-out) < depth {
			reporter.Complete(q, &Result{RequestContext: in})
			in++
			if in%3 == 0 {
				break
			}
		}
		reporter.Report(1)
		if q.Faulted() {
			t.Fatalf("overrun at %d results and depth %d", in-out, depth)
		}
		check(step % 4)
	}
}
