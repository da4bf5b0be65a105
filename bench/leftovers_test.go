package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestInterruptedRunsLeaveNothing ends `ndperf veth` at random moments: by Ctrl-C, by kill -9 of the parent, and by kill -9 of either
// side. After that everything of its processes must soon be gone: the processes, their namespaces and links, which nothing else holds,
// and their XDP programs.
func TestInterruptedRunsLeaveNothing(t *testing.T) {
	netlabtest.NeedRoot(t)
	if testing.Short() {
		t.Skip("starts ndperf ten times; left out with -short")
	}
	binary := filepath.Join(t.TempDir(), "ndperf")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/ndxdp/ndxdp/cmd/ndperf").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	victims := []string{"interrupt the parent", "kill the parent", "kill one side", "kill the other side"}
	for i := range 10 {
		victim := i % len(victims)
		moment := 50*time.Millisecond + time.Duration(rng.Int64N(int64(2500*time.Millisecond)))
		t.Run(fmt.Sprintf("%d %s after %v", i, victims[victim], moment), func(t *testing.T) {
			t.Parallel()
			for tries := 1; !interrupt(t, binary, victim, moment); tries++ {
				if tries == 5 {
					t.Fatal("a side was killed five times, and the run reported success each time")
				}
			}
		})
	}
}

// interrupt returns false if a side was killed after it had reported its result, so that the kill had no effect.
func interrupt(t *testing.T, binary string, victim int, moment time.Duration) (missed bool) {
	t.Helper()
	cmd := exec.Command(binary, "veth", "--mtu", "1500", "--duration", "200ms")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-time.After(moment): // the moment is the random input of this test, and no event is awaited
	case err := <-ended:
		t.Fatalf("it ended by itself: %v\n%s", err, &said)
	}
	children := childrenOf(cmd.Process.Pid)
	programs := programsOf(children)
	switch {
	case victim == 0:
		_ = cmd.Process.Signal(syscall.SIGINT)
	case victim == 1 || len(children) == 0:
		_ = cmd.Process.Kill()
	case !killAlive(children[min(victim-2, len(children)-1)]):
		_ = cmd.Process.Kill() // the side had ended by itself, so another one must be chosen
	}
	select {
	case err := <-ended:
		missed = err != nil
		if !missed && victim < 2 {
			t.Fatal("it was interrupted and reports success")
		}
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatal("it still runs a minute later")
	}
	gone := func() bool {
		for _, pid := range children {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil {
				return false
			}
		}
		return !slices.ContainsFunc(loaded(t), func(id uint32) bool { return slices.Contains(programs, id) })
	}
	for deadline := time.Now().Add(time.Minute); !gone(); {
		if time.Now().After(deadline) {
			t.Fatalf("a minute later: processes were %v, programs %v, still loaded %v", children, programs, loaded(t))
		}
		time.Sleep(20 * time.Millisecond) // a bounded poll: the kernel gives no event for this
	}
	return missed
}

// killAlive kills a process that another process waits for, and reports whether it was alive until then. It stops the process first,
// because a process that has ended by itself accepts signals too. A process that stays in the kernel is killed anyway. If it were stopped
// before it executes its program, it would hold its inherited descriptors for ever.
func killAlive(pid int) bool {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, after, _ := strings.Cut(string(stat), ") ") // behind the name
		switch after[0] {
		case 'T':
			return syscall.Kill(pid, syscall.SIGKILL) == nil
		case 'Z', 'X':
			return false
		}
		time.Sleep(time.Millisecond) // the signal is under way, and no event tells when it has arrived
	}
	return syscall.Kill(pid, syscall.SIGKILL) == nil
}

// childrenOf returns the processes that a process started.
func childrenOf(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for s := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(s); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// programsOf returns the ids of the BPF programs that processes hold.
func programsOf(pids []int) (ids []uint32) {
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
		for _, f := range files {
			file, err := os.Open(f)
			if err != nil {
				continue
			}
			for lines := bufio.NewScanner(file); lines.Scan(); {
				var id uint32
				if _, err := fmt.Sscanf(lines.Text(), "prog_id: %d", &id); err == nil {
					ids = append(ids, id)
				}
			}
			_ = file.Close()
		}
	}
	return ids
}

func loaded(t *testing.T) (ids []uint32) {
	t.Helper()
	programs, err := bpf.Programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		ids = append(ids, p.ID)
	}
	return ids
}
