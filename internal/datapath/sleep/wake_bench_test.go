package sleep

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// BenchmarkWake measures the wake-up of a goroutine that waits for packets, by a goroutine that then sleeps: through the kernel,
// and for a call that ended.
func BenchmarkWake(b *testing.B) {
	for name, wake := range map[string]func(*Sleeper){"wake": (*Sleeper).Wake, "rouse": (*Sleeper).Rouse} {
		b.Run(name, func(b *testing.B) { benchmarkWake(b, wake) })
	}
}

func benchmarkWake(b *testing.B, wake func(*Sleeper)) {
	s, _, _ := newTestSleeper(b)
	o, _, _ := newTestSleeper(b)
	done := background(func() {
		for range b.N {
			s.Wait(clock.Never, false)
			wake(o)
		}
	})
	for range b.N {
		wake(s)
		o.Wait(clock.Never, false)
	}
	<-done
}
