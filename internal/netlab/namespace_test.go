package netlab

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var eventually = testhelp.Eventually

// childEnv makes this test binary create a namespace that a veth pair connects with its own, and wait to be killed.
const childEnv = "NDXDP_TEST_CHILD"

const (
	childBuilds = "build"
	childStarts = "start" // starts another child in a new namespace, to be killed with this process
	childSleeps = "sleep"
)

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case childBuilds:
		err = buildNextDoor()
	case childStarts:
		err = startGrandchild()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready", os.Getpid())
	time.Sleep(time.Hour)
}

// buildNextDoor makes a namespace. Outside it shows only as the near end of a veth pair: when this end is gone, the kernel has
// removed the namespace.
func buildNextDoor() error {
	n, err := New()
	if err != nil {
		return err
	}
	veth := netlink.NewVeth(netlink.LinkAttrs{Name: "near"})
	veth.PeerName = "far"
	veth.PeerNamespace = netlink.NsFd(n.FD())
	err = netlink.LinkAdd(veth)
	kept = n
	return err
}

// kept keeps a namespace until the process ends.
var kept *Namespace

func startGrandchild() error {
	n, err := New()
	if err != nil {
		return err
	}
	kept = n
	grandchild := childCommand(childSleeps)
	grandchild.Stdout = os.Stdout
	return n.StartProcess(grandchild)
}

func childCommand(role string) *exec.Cmd {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), childEnv+"="+role)
	return child
}

// startChild starts a child in the namespace and returns a reader of its output.
func startChild(t *testing.T, n *Namespace, role string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	child := childCommand(role)
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.StartProcess(child); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // the child may be dead already
		_ = child.Wait()         // returns an error, because it was killed or waited for already
	})
	return child, bufio.NewReader(stdout)
}

func expectReady(t *testing.T, lines *bufio.Reader) (pid int) {
	t.Helper()
	line, err := lines.ReadString('\n')
	if n, _ := fmt.Sscanf(line, "ready %d", &pid); n != 1 {
		t.Fatalf("child said %q, %v", line, err)
	}
	return pid
}

func newNamespace(t *testing.T) *Namespace {
	t.Helper()
	requireRoot(t)
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func ownNamespace(t *testing.T) uint64 {
	t.Helper()
	inode, err := inodeOf(threadNetPath)
	if err != nil {
		t.Fatal(err)
	}
	return inode
}

func TestDoEntersAndReturns(t *testing.T) {
	n := newNamespace(t)
	m := newNamespace(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home := ownNamespace(t)
	boom := errors.New("boom")
	err := n.Do(func() error {
		outer := ownNamespace(t)
		if outer == home {
			t.Error("Do did not enter the namespace")
		}
		if err := m.Do(func() error { return n.Do(func() error { return nil }) }); err != nil {
			t.Error(err)
		}
		if ownNamespace(t) != outer {
			t.Error("a nested Do did not return to the outer namespace")
		}
		links, err := net.Interfaces()
		if err != nil || len(links) != 1 || links[0].Flags&net.FlagUp == 0 {
			t.Errorf("links of a new namespace: %v, %v; want lo, up", links, err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("Do returned %v, want the error of fn", err)
	}
	if ownNamespace(t) != home {
		t.Fatal("Do did not return")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		_ = n.Do(func() error { panic("in the namespace") })
	}()
	if ownNamespace(t) != home {
		t.Fatal("Do did not return after a panic")
	}
}

func TestDoFromManyGoroutines(t *testing.T) {
	namespaces := []*Namespace{newNamespace(t), newNamespace(t), newNamespace(t)}
	home := ownNamespace(t)
	var workers sync.WaitGroup
	for i := range 32 {
		n := namespaces[i%len(namespaces)]
		want, err := inodeOf(fmt.Sprintf("/proc/self/fd/%d", n.FD()))
		if err != nil {
			t.Fatal(err)
		}
		workers.Go(func() {
			for range 20 {
				err := n.Do(func() error {
					runtime.Gosched()
					if got := ownNamespace(t); got != want {
						t.Errorf("in namespace %d, want %d", got, want)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		inode, err := inodeOf("/proc/self/task/" + thread.Name() + "/ns/net")
		if err == nil && inode != home {
			t.Errorf("thread %s stayed in namespace %d", thread.Name(), inode)
		}
	}
}

func TestStartProcessRunsInside(t *testing.T) {
	n := newNamespace(t)
	child, lines := startChild(t, n, childSleeps)
	expectReady(t, lines)
	got, err := inodeOf(fmt.Sprintf("/proc/%d/ns/net", child.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	want, err := inodeOf(fmt.Sprintf("/proc/self/fd/%d", n.FD()))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the child is in namespace %d, want %d", got, want)
	}
	missing := exec.Command("/no/such/program")
	if err := n.StartProcess(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start of a missing program: %v", err)
	}
}

// The parent-death signal comes with the end of the thread that forked, so this thread must not be the caller's.
func TestStartedProcessOutlivesTheCallingThread(t *testing.T) {
	n := newNamespace(t)
	child := childCommand(childSleeps)
	type result struct {
		thread int
		err    error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		results <- result{unix.Gettid(), n.StartProcess(child)}
	}()
	got := <-results
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer func() {
		_ = child.Process.Kill() // the child may be dead, if the test fails
		_ = child.Wait()         // returns an error, because it was killed
	}()
	if got.thread != os.Getpid() { // the main thread stays
		eventually(t, "the calling thread ends", func() bool {
			return !running(fmt.Sprintf("self/task/%d", got.thread))
		})
	}
	if !alive(child.Process.Pid) {
		t.Error("the child died with the thread that started it")
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestKilledProcessTakesItsNamespaceDown(t *testing.T) {
	outside := newNamespace(t)
	child, lines := startChild(t, outside, childBuilds)
	expectReady(t, lines)
	near := func() bool {
		found := false
		err := outside.Do(func() error {
			_, err := net.InterfaceByName("near")
			found = err == nil
			return nil
		})
		return err == nil && found
	}
	if !near() {
		t.Fatal("the child did not build its network")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kernel removes the namespace of the killed child", func() bool { return !near() })
}

func TestKilledProcessTakesItsChildrenDown(t *testing.T) {
	outside := newNamespace(t)
	child, lines := startChild(t, outside, childStarts)
	pids := []int{expectReady(t, lines), expectReady(t, lines)} // in any order
	grandchild := pids[0]
	if grandchild == child.Process.Pid {
		grandchild = pids[1]
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Possibly no process waits for it, so a zombie counts as dead.
	eventually(t, "the grandchild dies", func() bool { return !alive(grandchild) })
}

func TestLeftovers(t *testing.T) {
	n := newNamespace(t)
	held, err := inodeOf(fmt.Sprintf("/proc/self/fd/%d", n.FD()))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("net:[%d]", held)
	listed := func() bool {
		found, err := Leftovers()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(found, "\n"), name)
	}
	if !listed() {
		t.Error("an open namespace is not listed")
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if listed() {
		t.Error("a closed namespace is listed")
	}
}

func TestNothingLeaks(t *testing.T) {
	requireRoot(t)
	cycle := func() {
		p, err := NewPair(PairConfig{Queues: 2, IPv6: true, StaticNeighbours: true, RPSMask: "1"})
		if err != nil {
			t.Fatal(err)
		}
		child := childCommand(childSleeps)
		if err := p.B.StartProcess(child); err != nil {
			t.Fatal(err)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // returns an error, because it was killed
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := NewPair(PairConfig{MTU: 1 << 20}); err == nil {
			t.Fatal("no error")
		}
	}
	cycle() // the first cycle opens descriptors that the runtime keeps
	descriptors, goroutines := countDescriptors(t), runtime.NumGoroutine()
	for range 10 {
		cycle()
	}
	if got := countDescriptors(t); got > descriptors {
		t.Errorf("%d descriptors before, %d after", descriptors, got)
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	// A child of another run of these tests may be ending now.
	eventually(t, "nothing is left over", func() bool {
		found, err := Leftovers()
		return err == nil && len(found) == 0
	})
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
