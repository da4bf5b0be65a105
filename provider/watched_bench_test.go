package provider

import "testing"

// BenchmarkPingPongWatched is BenchmarkPingPong with a snapshot of both sides every 10 ms, as ndstat does at its fastest: about
// every 5000 messages.
func BenchmarkPingPongWatched(b *testing.B) {
	p := newPair(b, 1408).connect()
	s, into := p.send(0, 64), p.sge(1, 4096, 64)
	var rs [8]Result
	var dst [64]ConnInfo
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		_, _ = p.qp[1].PostReceive(0, into, 64)
		_, _ = s.post(p.qp[0])
		for got := false; !got; {
			p.turn()
			p.cq[0].Fetch(rs[:])
			got = p.cq[1].Fetch(rs[:]) > 0
		}
		if n%5000 == 0 {
			for _, e := range p.eng {
				_ = e.Stats()
				e.Connections(dst[:], 0)
			}
		}
	}
}

// BenchmarkSnapshot copies the snapshot of one connection.
func BenchmarkSnapshot(b *testing.B) {
	p := newPair(b, 1408).connect()
	var dst [64]ConnInfo
	b.ReportAllocs()
	for b.Loop() {
		_ = p.eng[0].Stats()
		p.eng[0].Connections(dst[:], 0)
	}
}
