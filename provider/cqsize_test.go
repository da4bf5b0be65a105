package provider

import "testing"

// Queues of every size and fill are resized, and no result is lost or out of order.
func TestResizeKeepsResults(t *testing.T) {
	p := newPair(t, 1400)
	var in, out uint64
	q := NewCQ(1)
	p.eng[0].results.touched = nil
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
			if o := q.Resize(depth); o != OutcomeBufferOverflow {
				t.Fatalf("%d queued, resized to %d: %v", queued, depth, o)
			}
			depth = queued
			p.must(q.Resize(depth))
		default:
			p.must(q.Resize(depth))
		}
		for int(in-out) < depth {
			p.eng[0].results.complete(q, &Result{RequestContext: in})
			in++
			if in%3 == 0 {
				break
			}
		}
		p.eng[0].finishTurn()
		if q.faulted.Load() {
			t.Fatalf("overrun at %d results and depth %d", in-out, depth)
		}
		check(step % 4)
	}
}
