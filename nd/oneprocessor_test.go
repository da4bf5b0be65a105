package nd

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/ndxdp/ndxdp/internal/testhelp"
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
