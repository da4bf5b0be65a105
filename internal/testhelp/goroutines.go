package testhelp

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Goroutines is a set of goroutine numbers. No number is used twice.
type Goroutines map[string]bool

// RunningGoroutines returns the goroutines that exist now.
func RunningGoroutines() Goroutines {
	all := Goroutines{}
	for _, stack := range stacks() {
		all[number(stack)] = true
	}
	return all
}

// Leak waits, for a minute at most, until all goroutines except the known ones have ended. It ignores goroutines of the test run itself,
// and goroutines with one of the named functions in their stack. The error has the stacks of the remaining goroutines. A nil map means
// that none is known.
func (known Goroutines) Leak(functions ...string) error {
	functions = append(functions, ofTests...)
	for limit, pause := time.After(patience), time.Millisecond; ; pause = min(2*pause, time.Second) {
		left := slices.DeleteFunc(stacks()[1:], func(stack string) bool { // the first goroutine is the caller
			return known[number(stack)] || slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(stack, f+"(") })
		})
		if len(left) == 0 {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-limit:
			return fmt.Errorf("%d goroutines are left:\n\n%s", len(left), strings.Join(left, "\n\n"))
		}
	}
}

// ofTests are functions of goroutines that run tests, or wait for signals until the process ends.
var ofTests = []string{"testing.tRunner", "testing.(*T).Run", "os/signal.signal_recv", "os/signal.loop"}

// ExitStatus returns the exit status of a test run. If the run passed but left goroutines, it counts as failed.
func ExitStatus(status int) int {
	if status != 0 {
		return status
	}
	if err := Goroutines(nil).Leak(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// stacks returns the stacks of all goroutines, with the caller's first.
func stacks() []string {
	for b := make([]byte, 1<<16); ; b = make([]byte, 2*len(b)) {
		if n := runtime.Stack(b, true); n < len(b) {
			return strings.Split(strings.TrimSpace(string(b[:n])), "\n\n")
		}
	}
}

// number returns the number in "goroutine 7 [running]:".
func number(stack string) string {
	n, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
	return n
}
