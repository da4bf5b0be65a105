package verbs

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
)

// A poller whose polls ended other goroutines' calls yields once after several empty polls. A poller that gets results, sleeps, or
// ended no calls does not yield.
func TestPollersYield(t *testing.T) {
	e := newEnd(t, open(t))
	q := &e.cq
	polls := func(n, times int) (yields []bool) {
		for range times {
			yields = append(yields, q.pollsInVain(n))
		}
		return yields
	}
	if slices.Contains(polls(0, 10*spinPolls), true) {
		t.Error("a poller that ended no calls yields")
	}
	q.owes = true
	if slices.Contains(polls(1, 10*spinPolls), true) || slices.Contains(polls(0, spinPolls-1), true) {
		t.Error("a poller with a result, or after a few polls, yields")
	}
	polls(1, 1)
	want := make([]bool, 10*spinPolls)
	want[spinPolls-1] = true
	if got := polls(0, len(want)); !slices.Equal(got, want) {
		t.Errorf("it yields at %v", got)
	}
	q.owes = true
	polls(0, spinPolls-1)
	q.CancelWaiter(q.Arm(provider.NotifyAny, func(provider.Outcome) {}), provider.OutcomeCanceled)
	if slices.Contains(polls(0, 10*spinPolls), true) {
		t.Error("a poller that slept yields")
	}
}

func TestPollersOnOneProcessorGiveItUp(t *testing.T) {
	e := newEnd(t, open(t))
	yields := 0
	wasOne, was := oneProcessor, yieldProcessor
	t.Cleanup(func() { oneProcessor, yieldProcessor = wasOne, was })
	yieldProcessor = func() { yields++ }
	for _, one := range []bool{true, false} {
		oneProcessor, yields = one, 0
		for range 10 {
			Results(&e.cq, make([]provider.Result, 1), func(to, from []provider.Result) { copy(to, from) })
		}
		if want := map[bool]int{true: 10, false: 0}[one]; yields != want {
			t.Errorf("one processor %v: %d of 10 empty polls yield, want %d", one, yields, want)
		}
	}
}

// A process limited to one of several processors detects that, and its pollers yield. A process inherits the processors of the
// thread that starts it.
func TestOneProcessorIsSeen(t *testing.T) {
	const bound = "VERBS_TEST_BOUND"
	if os.Getenv(bound) != "" {
		if !oneProcessor {
			t.Errorf("this process is bound to one processor and counts %d", runtime.NumCPU())
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOneProcessorIsSeen$")
	cmd.Env = append(os.Environ(), bound+"=1")
	testhelp.OnOneProcessor(t, func() {
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	})
}
