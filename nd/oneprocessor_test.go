package nd

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// again is an environment variable for a test binary that a test executes again with fewer processors.
const again = "ND_TEST_AGAIN"

// Two adapters of a process move bytes with one processor for goroutines, with one for threads, and with both limits.
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
			run := func() {
				if said, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v:\n%s", err, said)
				}
			}
			if c.bind {
				testhelp.OnOneProcessor(t, run)
			} else {
				run()
			}
		})
	}
}
