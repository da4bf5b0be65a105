package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// briefly are flags that shorten commands of README.md.
var briefly = map[string]string{
	"ndperf veth":   "--duration 20ms --mtu 1500 --tests write_lat,write_bw --baseline raw",
	"ndperf loop":   "--duration 20ms --tests write_lat,write_bw --baseline none",
	"ndinfo doctor": "lo",
}

// The first commands of README.md work in a user namespace of an ordinary user (unshare -Urn), where all capabilities are present and
// none counts. They use plain sockets, and one line says what that costs.
func TestRootless(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := ""
	for _, name := range []string{"ndperf", "ndinfo", "ndping"} {
		program := netlabtest.Build(t, "../"+name)
		if dir == "" {
			dir = filepath.Dir(program)
		}
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Rename(program, filepath.Join(dir, name))); err != nil { // lets the user enter the directory
			t.Fatal(err)
		}
	}
	n := 0
	for line := range strings.Lines(string(readme)) {
		line, ok := strings.CutPrefix(line, "go run ./cmd/")
		line, _, _ = strings.Cut(line, "#")
		if flags := briefly[strings.TrimSpace(line)]; ok {
			n++
			t.Run(strings.TrimSpace(line), func(t *testing.T) {
				said := rootless(t, "ip link set lo up; exec "+filepath.Join(dir, strings.TrimSpace(line))+" "+flags)
				for _, want := range []string{"without the ceiling of raw AF_XDP: ", "datapath udp: AF_XDP needs to load an XDP program: "} {
					if strings.Contains(line, "veth") && strings.Count(said, want) != 1 {
						t.Errorf("it says not once %q:\n%s", want, said)
					}
				}
			})
		}
	}
	if n != len(briefly) {
		t.Errorf("README.md has %d commands to try, want %d", n, len(briefly))
	}
	t.Run("sweep", func(t *testing.T) {
		const flags = " sweep --duration 20ms --mtu 1500 --datapath auto --tests write_lat --sizes 64 --baseline raw,tcp --json "
		said := rootless(t, "ip link set lo up; exec "+filepath.Join(dir, "ndperf")+flags+"/dev/null")
		if strings.Count(said, "without the ceiling of raw AF_XDP: ") != 1 || !strings.Contains(said, "every operation verified") {
			t.Errorf("it does not leave out raw AF_XDP:\n%s", said)
		}
	})
	t.Run("between two processes", func(t *testing.T) {
		said := rootless(t, "ip link set lo up; cd "+dir+"; ./ndperf server --addr 127.0.0.1:7000 & a=$!; ./ndping -l 127.0.0.1:7001 & b=$!; "+
			"until ./ndping 127.0.0.1:7001 -c 3; do :; done; until ./ndperf client --addr 127.0.0.1:7000 --duration 20ms --tests write_bw; do :; done; kill $a $b")
		if !strings.Contains(said, "3 answered") || !strings.Contains(said, "nd udp") {
			t.Errorf("it did not work:\n%s", said)
		}
	})
}

// rootless runs a script as an ordinary user who is root in a user and network namespace, and returns its output. It must succeed.
func rootless(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = "/", &said, &said, time.Second
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: nobody, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: nobody, Size: 1}},
		Credential:  &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
		Pdeathsig:   syscall.SIGKILL,
		Setpgid:     true,
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", script, err, &said)
	}
	return said.String()
}
