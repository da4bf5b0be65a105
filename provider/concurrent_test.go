package provider

import (
	"sync"
	"testing"
)

// Eight goroutines post to one queue pair while others poll and read snapshots. The race detector finds no race (I1), and no result
// is missing.
func TestConcurrentPosters(t *testing.T) {
	const rounds, posters, each = 5, 8, 100 // the completion queue has space for the results of one round
	p, s := shards(t)
	defer closeAll(s)
	var looking sync.WaitGroup
	done := make(chan struct{})
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				s[0].Do(func(e *Engine) { e.Connections(make([]ConnInfo, 4), 0) })
				s[1].Look()
			}
		}
	})
	defer looking.Wait()
	defer close(done)
	post := func(r *listed) {
		for n := 0; n < each; {
			if _, o := r.post(p.qp[0]); o == OutcomeSuccess {
				n++
			} else if o != OutcomeNoMoreEntries {
				t.Errorf("post: %v", o)
				return
			}
		}
	}
	rs := make([]Result, 64)
	for range rounds {
		var posting sync.WaitGroup
		for i := range uint32(posters) {
			r := p.write(0, i*64, 64)
			if i%2 == 1 {
				r = p.read(i*64, 64)
			}
			posting.Go(func() { post(r) })
		}
		for got := 0; got < posters*each && !t.Failed(); {
			s[0].Poll()
			n := p.cq[0].Fetch(rs)
			for i := range rs[:n] {
				if rs[i].Outcome != OutcomeSuccess {
					t.Fatalf("result %+v", rs[i])
				}
			}
			got += n
		}
		posting.Wait()
	}
}
