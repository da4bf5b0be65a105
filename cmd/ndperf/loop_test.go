package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
)

// nobody is a user without rights.
const nobody = 65534

// TestLoopAsOrdinaryUser runs the whole test list of `ndperf loop`, as a user who may nothing.
func TestLoopAsOrdinaryUser(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for two seconds; left out with -short")
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // closed to other users
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "ndperf")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	port, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, free, _ := strings.Cut(port.LocalAddr().String(), ":")
	port.Close()
	if _, err := strconv.Atoi(free); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "loop", "--duration", "50ms", "--udp-port", free, "--json", "-")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("ndperf loop: %v\n%s", err, &stderr)
	}
	r, err := bench.ReadReport(&stdout)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if len(r.Results) != len(bench.Tests()) || len(r.Baselines) != 3 {
		t.Errorf("%d results and %d baselines, want %d and 3", len(r.Results), len(r.Baselines), len(bench.Tests()))
	}
	for _, x := range r.Results {
		if x.Datapath != "udp" {
			t.Errorf("%s ran over %q", x.Test, x.Datapath)
		}
	}
	for _, x := range r.Ratios {
		if x.Bound != nil && !strings.Contains(x.Name, "allocations") {
			t.Errorf("%s is held to a bound of AF_XDP", x.Name)
		}
	}
}
