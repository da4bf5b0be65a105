package nd

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// again is in the environment of a test binary that a test runs again with fewer processors.
const again = "ND_TEST_AGAIN"

// Bytes move between two adapters of a process whose goroutines have one processor, whose threads have one, or both.
func TestOneProcessor(t *testing.T) {
	if os.Getenv(again) != "" {
		t.Logf("%d processors, GOMAXPROCS %d", runtime.NumCPU(), runtime.GOMAXPROCS(0))
		r, _ := newLoopRig(t, DatapathUDP)
		moveEverything(t, r)
		return
	}
	for name, c := range map[string]struct {
		env  []string
		bind bool
	}{
		"GOMAXPROCS=1":  {[]string{"GOMAXPROCS=1"}, false},
		"one processor": {[]string{"GOMAXPROCS=2"}, true},
		"both":          {[]string{"GOMAXPROCS=1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOneProcessor$", "-test.v")
			cmd.Env = append(append(os.Environ(), again+"=1"), c.env...)
			run := cmd.CombinedOutput
			if c.bind {
				run = func() ([]byte, error) { return onOneProcessor(t, cmd) }
			}
			said, err := run()
			if err != nil {
				t.Fatalf("%v:\n%s", err, said)
			}
		})
	}
}

// onOneProcessor runs a command whose threads have one processor: it inherits that from the thread that starts it.
func onOneProcessor(t *testing.T, cmd *exec.Cmd) ([]byte, error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &all))
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	must(t, unix.SchedSetaffinity(0, &one))
	defer func() { must(t, unix.SchedSetaffinity(0, &all)) }()
	return cmd.CombinedOutput()
}
