package bench

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// mostCollections bounds the number of garbage collections in memoryUse, because other goroutines may produce garbage.
const mostCollections = 8

// memoryUse returns the bytes of heap and stacks in use after garbage collection. It collects until a collection frees nothing
// more, because the first collections only release pools and the stacks of ended goroutines (96 KiB after an adapter opened).
func memoryUse() uint64 {
	var least uint64
	for i := range mostCollections {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		used := m.HeapAlloc + m.StackInuse
		if i >= 2 && used >= least {
			return used
		}
		least = used
	}
	return least
}

// CPUTime returns the processor time of this process, in user and kernel mode.
func CPUTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot fail for the own process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
