package testhelp

import (
	"testing"
	"time"
)

// patience bounds waits for events that normally come soon, and later on a busy machine.
const patience = time.Minute

// Must ends the test unless err is nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits, for a minute at most, for a change by other goroutines, the kernel or a peer that no event reports.
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
