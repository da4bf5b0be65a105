package nd

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// BenchmarkPost measures a post alone, and BenchmarkGetResults the fetch of its result. The queue pair was flushed, so that
// requests complete at once.
func BenchmarkPost(b *testing.B)       { benchmarkPosts(b, true) }
func BenchmarkGetResults(b *testing.B) { benchmarkPosts(b, false) }

func benchmarkPosts(b *testing.B, posting bool) {
	const depth = 4096
	a, err := OpenAdapter(AdapterConfig{Address: loopback[0], UDPPort: netlabtest.FreePort(b), Datapath: DatapathUDP})
	must(b, err)
	defer func() { must(b, a.Close()) }()
	l, err := Listen(netip.AddrPortFrom(loopback[0], 0), EndpointConfig{Adapter: a})
	must(b, err)
	defer func() { must(b, l.Close()) }()
	at, err := l.Address()
	must(b, err)
	accepted := start(func() error { _, err := l.Accept(b.Context()); return err })
	e, err := Dial(b.Context(), at, EndpointConfig{Adapter: a, Depth: depth})
	must(b, err)
	must(b, finish(b, "accept", accepted))
	e.QueuePair.Flush()
	sgl := []SGE{e.Memory.SGE(0, 64)}
	results := make([]Result, depth)
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	for left := b.N; left > 0; left -= depth {
		n := min(left, depth)
		if posting {
			b.StartTimer()
		}
		for range n {
			if err := e.QueuePair.Write(1, sgl, 0, 0, OpDefer); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		e.QueuePair.Flush()
		if !posting {
			b.StartTimer()
		}
		for got := 0; got < n; {
			got += e.Queue.GetResults(results[:16])
		}
		b.StopTimer()
	}
}
