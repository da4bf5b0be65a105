package provider

import (
	"strconv"
	"testing"
)

// These benchmarks measure the processor time of the engines of both peers. The wire is memory, and copies each packet once.

func benchWrites(b *testing.B, packet int, size uint32, batch int) {
	p := newPair(b, packet).connect()
	r := p.write(0, 0, size)
	var rs [64]Result
	b.ReportAllocs()
	b.SetBytes(int64(size) * int64(batch))
	packets := p.eng[0].Stats().PacketsOut
	for b.Loop() {
		for range batch {
			_, _ = r.post(p.qp[0])
		}
		for done := 0; done < batch; {
			p.turn()
			done += p.drain(rs[:])
		}
	}
	s := p.eng[0].Stats()
	b.ReportMetric(float64(s.PacketsOut-packets)/float64(b.N), "packets/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/write")
	if s.Retransmits > 0 {
		b.Errorf("%d packets retransmitted", s.Retransmits)
	}
}

func BenchmarkWrite64x32(b *testing.B)    { benchWrites(b, 1408, 64, 32) }
func BenchmarkWrite64x32Big(b *testing.B) { benchWrites(b, 65507, 64, 32) }
func BenchmarkWrite1M1408(b *testing.B)   { benchWrites(b, 1408, 1<<20, 1) }
func BenchmarkWrite1M8972(b *testing.B)   { benchWrites(b, 8972, 1<<20, 1) }
func BenchmarkWrite1M64K(b *testing.B)    { benchWrites(b, 65507, 1<<20, 1) }

func BenchmarkRead1M64K(b *testing.B) {
	p := newPair(b, 65507).connect()
	r := p.read(0, 1<<20)
	var rs [64]Result
	b.ReportAllocs()
	b.SetBytes(1 << 20)
	for b.Loop() {
		_, _ = r.post(p.qp[0])
		for p.drain(rs[:]) == 0 {
			p.turn()
		}
	}
}

// BenchmarkPingPong sends 64 bytes there and back: post, poll and result on both sides.
func BenchmarkPingPong(b *testing.B) {
	p := newPair(b, 1408).connect()
	s := [2]*listed{p.send(0, 64), p.send(1, 64)}
	into := [2][]SGE{p.sge(0, 4096, 64), p.sge(1, 4096, 64)}
	for i := range 2 {
		for range 64 {
			_, _ = p.qp[i].PostReceive(0, into[i], 64)
		}
	}
	p.runUntilIdle()
	var rs [8]Result
	await := func(side int) {
		for got := false; !got; {
			p.turn()
			for _, r := range rs[:p.cq[side].Fetch(rs[:])] {
				if r.Kind == KindReceive {
					got = true
					_, _ = p.qp[side].PostReceive(0, into[side], 64)
				}
			}
		}
	}
	b.ReportAllocs()
	packets := p.eng[0].Stats().PacketsOut + p.eng[1].Stats().PacketsOut
	for b.Loop() {
		_, _ = s[0].post(p.qp[0])
		await(1)
		_, _ = s[1].post(p.qp[1])
		await(0)
	}
	packets = p.eng[0].Stats().PacketsOut + p.eng[1].Stats().PacketsOut - packets
	b.ReportMetric(float64(packets)/float64(b.N), "packets/op")
}

// BenchmarkConnections writes 64 bytes on every connection in turn. Apart from cache misses, the cost of a message must not depend
// on the number of connections.
func BenchmarkConnections(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := newFleet(b, n)
			r := f.write(0, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				f.writeAll(r)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/message")
		})
	}
}
