package netlabtest

import (
	"bytes"
	"runtime/pprof"
	"testing"
)

// Hang fails a test because an expected event did not happen, and prints the stacks of all goroutines, because the failure is hard
// to reproduce.
func Hang(t testing.TB, format string, args ...any) {
	t.Helper()
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
		t.Error(err)
	}
	t.Logf("goroutines:\n%s", stacks.Bytes())
	t.Fatalf(format, args...)
}
