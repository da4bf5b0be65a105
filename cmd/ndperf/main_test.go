package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// patience bounds every run of ndperf.
const patience = 3 * time.Minute

// runAgain is an environment variable that makes the test binary run as ndperf.
const runAgain = "NDPERF_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runAgain) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ndperf returns the command in a separate process. It is the test binary, so no test has to build it.
func ndperf(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), runAgain+"=1")
	return cmd
}
