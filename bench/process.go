package bench

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// mostCollections bounds how often memoryUse collects garbage: something may go on making some.
const mostCollections = 8

// memoryUse returns how many bytes of heap and of stacks this process has in use, once garbage is collected. It collects until a collection
// gives nothing back any more: the first ones only let go of pools and of the stacks of goroutines that ended, 96 KiB after an adapter opened.
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

// CPUTime returns how long this process has run, in user and kernel mode together.
func CPUTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // it cannot fail for the own process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
