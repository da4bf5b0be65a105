package ndk

import "testing"

// BenchmarkPost measures a post alone: the queue pair was flushed, so that requests complete at once.
func BenchmarkPost(b *testing.B) {
	const depth = 16
	r := newRig(b)
	e, _ := r.connected(b)
	e.qp.Flush()
	sgl := []SGE{e.mr.SGE(0, 64)}
	results := make([]Result, depth)
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	for left := b.N; left > 0; left -= depth {
		n := min(left, depth)
		b.StartTimer()
		for range n {
			if s := e.qp.Write(1, sgl, 0, 0, OpDefer); s != StatusSuccess {
				b.Fatal(s)
			}
		}
		b.StopTimer()
		e.qp.Flush()
		for got := 0; got < n; {
			got += e.cq.GetResults(results)
		}
	}
}
