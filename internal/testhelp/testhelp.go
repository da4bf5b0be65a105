package testhelp

import (
	"testing"
	"time"
)

// patience bounds waits for what should happen soon, and on a busy machine happens later.
const patience = time.Minute

// Must ends the test unless err is nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits, a minute at most, for what other goroutines, the kernel or a peer bring about and no event tells of.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); !done(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
