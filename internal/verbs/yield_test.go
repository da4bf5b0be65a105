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

// On one processor, each poll in vain offers the processor to other threads while they take it. Offers that nobody takes become rarer, down
// to one in mostKept+1 polls. On several processors no poll offers it.
func TestPollersOnOneProcessorGiveItUp(t *testing.T) {
	e := newEnd(t, open(t))
	yields, taken := 0, true
	wasOne, was := oneProcessor, yieldProcessor
	t.Cleanup(func() { oneProcessor, yieldProcessor = wasOne, was })
	yieldProcessor = func() bool { yields++; return taken }
	const many = 16 * (mostKept + 1)
	for _, c := range []struct {
		one, taken  bool
		least, most int
	}{{true, true, many, many}, {true, false, 16, 20}, {true, true, many - mostKept, many}, {false, false, 0, 0}} {
		oneProcessor, taken, yields = c.one, c.taken, 0
		for range many {
			Results(&e.cq, make([]provider.Result, 1), func(to, from []provider.Result) { copy(to, from) })
		}
		if yields < c.least || yields > c.most {
			t.Errorf("%+v: %d of %d empty polls yield", c, yields, many)
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
