package crc32c

import (
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

// ways returns each implementation that this processor supports.
func ways(t testing.TB) map[string]func(crc uint32, p []byte) uint32 {
	t.Helper()
	all := map[string]func(uint32, []byte) uint32{"chosen": Update}
	maps.Copy(all, foldings())
	return all
}

func noise(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// For every length up to more than a block, at every alignment within a vector, the checksum equals that of the standard library.
func TestEqualsStandardLibrary(t *testing.T) {
	const longest = 9100
	b := noise(longest + 32)
	for name, update := range ways(t) {
		for n := range longest {
			at := n % 32
			p := b[at : at+n]
			crc := uint32(n) * 0x9e3779b9
			if got, want := update(crc, p), crc32.Update(crc, castagnoli, p); got != want {
				t.Fatalf("%s: %d bytes at %d: %08x, want %08x", name, n, at, got, want)
			}
		}
	}
}

func TestLong(t *testing.T) {
	b := noise(200_000)
	for name, update := range ways(t) {
		for _, n := range []int{8191, 8192, 8193, 16384, 65000, 65535, 199_999} {
			if got, want := update(7, b[:n]), crc32.Update(7, castagnoli, b[:n]); got != want {
				t.Errorf("%s: %d bytes: %08x, want %08x", name, n, got, want)
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	b := noise(1372)
	if n := testing.AllocsPerRun(100, func() { Update(1, b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Checksums of consecutive parts equal the checksum of the whole.
func FuzzUpdate(f *testing.F) {
	f.Add(uint32(0), []byte{}, 0)
	f.Add(uint32(0), []byte("123456789"), 3)
	f.Add(^uint32(0), noise(1372), 24)
	f.Add(uint32(5), noise(8200), 8192)
	f.Fuzz(func(t *testing.T, crc uint32, p []byte, cut int) {
		want := crc32.Update(crc, castagnoli, p)
		cut = min(max(cut, 0), len(p))
		for name, update := range ways(t) {
			if got := update(crc, p); got != want {
				t.Errorf("%s: %08x, want %08x", name, got, want)
			}
			if got := update(update(crc, p[:cut]), p[cut:]); got != want {
				t.Errorf("%s in two parts: %08x, want %08x", name, got, want)
			}
		}
	})
}

// BenchmarkUpdate can be compared with BenchmarkStandardLibrary: rows of equal size in one run.
func BenchmarkUpdate(b *testing.B) {
	for name, update := range ways(b) {
		for _, n := range []int{64, 256, 1372, 8904, 65000} {
			p := noise(n)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					update(1, p)
				}
			})
		}
	}
}

func BenchmarkStandardLibrary(b *testing.B) {
	for _, n := range []int{64, 256, 1372, 8904, 65000} {
		p := noise(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				crc32.Update(1, castagnoli, p)
			}
		})
	}
}

// BenchmarkBesideStandardLibrary alternates blocks of calls, and reports the speed of each implementation relative to hash/crc32.
// It compares the fastest blocks of both, because other work of the processor slows them unequally.
func BenchmarkBesideStandardLibrary(b *testing.B) {
	const calls = 200
	standard := func(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }
	for name, update := range ways(b) {
		for _, n := range []int{64, 256, 512, 1372, 8904} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				p := noise(n)
				block := func(update func(uint32, []byte) uint32) time.Duration {
					start := time.Now()
					for range calls {
						update(1, p)
					}
					return time.Since(start)
				}
				theirs, ours := time.Hour, time.Hour
				for b.Loop() {
					theirs = min(theirs, block(standard))
					ours = min(ours, block(update))
				}
				b.ReportMetric(float64(theirs)/float64(ours), "times")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
