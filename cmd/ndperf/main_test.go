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

// runAgain says in the environment that the test binary is to be ndperf.
const runAgain = "NDPERF_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runAgain) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ndperf returns the command in a process of its own: this program, which no test has to build.
func ndperf(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), runAgain+"=1")
	return cmd
}
