package nd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// smallMemory is an environment variable with the memory cgroup that a process joins, and the process's address.
const smallMemory = "ND_TEST_SMALL_MEMORY"

// memoryCgroup makes a memory cgroup below this process's own. It skips the test if this process may not.
func memoryCgroup(t *testing.T, limit int) (dir string) {
	t.Helper()
	netlabtest.NeedRoot(t)
	list, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	var refused error
	for line := range strings.Lines(string(list)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		mount, name := "/sys/fs/cgroup", "memory.max"
		switch {
		case id == "0":
		case controllers == "memory":
			mount, name = mount+"/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		dir := filepath.Join(mount, group, fmt.Sprintf("nd-test-%d", os.Getpid()))
		if err = os.Mkdir(dir, 0o755); err == nil {
			t.Cleanup(func() { must(t, os.Remove(dir)) })
			// os.WriteFile uses O_CREATE, which the kernel refuses if the controller is off.
			if err = writeExisting(filepath.Join(dir, name), fmt.Sprint(limit)); err == nil {
				return dir
			}
		}
		refused = errors.Join(refused, err)
	}
	t.Skipf("needs a memory cgroup that this process may create: %v", errors.Join(refused, fs.ErrPermission))
	return ""
}

func writeExisting(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

// In a memory cgroup of 64 MiB, adapters of the usual size work with each datapath. If AF_XDP needs more memory than the cgroup has
// free, it is refused with an error that names the cgroup, because the kernel would kill the process. auto then uses another
// datapath.
func TestSmallMemoryCgroup(t *testing.T) {
	if args := os.Getenv(smallMemory); args != "" {
		inSmallMemory(t, args)
		return
	}
	group := memoryCgroup(t, 64<<20)
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestSmallMemoryCgroup$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", smallMemory, group, pair.AddrA.Addr()))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, pair.A.StartProcess(cmd))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, &said)
	}
	t.Logf("%s", &said)
}

func inSmallMemory(t *testing.T, args string) {
	group, text, _ := strings.Cut(args, " ")
	addr := netip.MustParseAddr(text)
	must(t, writeExisting(filepath.Join(group, "cgroup.procs"), fmt.Sprint(os.Getpid())))
	for _, dp := range []Datapath{DatapathUDP, DatapathRing, DatapathTCX, DatapathGeneric, DatapathAuto} {
		a, err := OpenAdapter(AdapterConfig{Address: addr, Datapath: dp})
		if err != nil {
			t.Errorf("%s: %v", dp, err)
			continue
		}
		must(t, a.Close())
	}
	r, _ := newLoopRig(t, DatapathUDP)
	moveEverything(t, r)

	_, err := OpenAdapter(AdapterConfig{Address: addr, Datapath: DatapathGeneric, ArenaBytes: 64 << 20})
	wantStatus(t, "with a large arena", err, ErrNoMemory)
	wantOneLine(t, err, "memory cgroup", filepath.Base(group), "KiB")
	if !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("%v is not %v", err, unix.ENOMEM)
	}
	a, err := OpenAdapter(AdapterConfig{Address: addr, ArenaBytes: 64 << 20})
	must(t, err)
	if info := a.Datapath(); info.Datapath != DatapathRing && info.Datapath != DatapathUDP || !strings.Contains(info.Reason, "memory cgroup") {
		t.Errorf("auto takes %s: %s", info.Datapath, info.Reason)
	}
	must(t, a.Close())
}
