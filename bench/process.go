package bench

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// memoryUse is how many bytes of heap and of stacks this process has in use, once garbage is collected.
func memoryUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one only let go of: pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// CPUTime is how long this process has run, in user and kernel mode together.
func CPUTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // it cannot fail for the own process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
