package stackroom

import (
	"runtime/metrics"
	"testing"
)

// stacks returns the bytes of all goroutine stacks.
func stacks() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Goroutines that call Reserve have stacks with room for its frame.
func TestReserveGrowsTheStack(t *testing.T) {
	const goroutines = 64
	before := stacks()
	reserved, end := make(chan bool), make(chan bool)
	for range goroutines {
		go func() {
			Reserve()
			reserved <- true
			<-end
		}()
	}
	for range goroutines {
		<-reserved
	}
	grown := stacks() - before
	close(end)
	if grown < goroutines*Room {
		t.Errorf("%d stacks grew by %d bytes together, want at least %d", goroutines, grown, goroutines*Room)
	}
}

func BenchmarkReserve(b *testing.B) {
	for b.Loop() {
		Reserve()
	}
}
