package testhelp

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// OnOneProcessor calls f in a thread that the kernel runs on one processor. Processes that f starts inherit the restriction to this
// processor.
func OnOneProcessor(t testing.TB, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	Must(t, unix.SchedGetaffinity(0, &all))
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	Must(t, unix.SchedSetaffinity(0, &one))
	defer func() { Must(t, unix.SchedSetaffinity(0, &all)) }()
	f()
}
