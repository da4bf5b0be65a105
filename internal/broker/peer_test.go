package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// accepted connects by dial and returns the server's side.
func accepted(t *testing.T, dial func(path string) (*net.UnixConn, error)) *net.UnixConn {
	t.Helper()
	l, err := Listen(socketPath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func dialAt(path string) (*net.UnixConn, error) {
	return net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
}

// examine returns everything about a peer that a policy can ask for.
func examine(t *testing.T, conn *net.UnixConn) *Peer {
	t.Helper()
	ids, err := credentials(conn)
	if err != nil {
		t.Fatal(err)
	}
	return rules(t, "gid 1", "cgroup /").inspect(conn, ids)
}

// ownCgroup returns the cgroup of this process.
func ownCgroup(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, has := strings.Cut("\n"+string(text), "\n0::")
	if !has {
		t.Skip("no cgroup2 file system was mounted on this machine")
	}
	path, _, _ = strings.Cut(path, "\n")
	return path
}

// needPIDFDs skips the test without SO_PEERPIDFD.
func needPIDFDs(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "no SO_PEERPIDFD") {
		t.Skip(err)
	}
}

// TestInspect: the peer has the properties that the kernel reports of this process, and nothing that no rule asks for.
func TestInspect(t *testing.T) {
	conn := accepted(t, dialAt)
	want := ownCgroup(t)
	peer := examine(t, conn)
	needPIDFDs(t, peer.Unknown)
	if peer.UID != uint32(os.Geteuid()) || peer.GID != uint32(os.Getegid()) || peer.Cgroup != want || peer.Unknown != nil {
		t.Errorf("%+v, want user %d, group %d, cgroup %s", peer, os.Geteuid(), os.Getegid(), want)
	}
	ids, err := credentials(conn)
	if err != nil {
		t.Fatal(err)
	}
	if peer := rules(t, "1").inspect(conn, ids); peer.Groups != nil || peer.Cgroup != "" || peer.Unknown != nil {
		t.Errorf("asked for its user alone: %+v", peer)
	}
}

// TestPeerGroups: the peer has all supplementary groups, however many, from the time of its connection.
func TestPeerGroups(t *testing.T) {
	netlabtest.NeedRoot(t) // to set groups
	for _, n := range []int{0, 1, someGroups, someGroups + 1, 1000} {
		groups := make([]int, n)
		for i := range groups {
			groups[i] = 70_000 + i
		}
		conn := accepted(t, func(path string) (conn *net.UnixConn, err error) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				runtime.LockOSThread() // not unlocked: the thread keeps the groups and ends
				if err = unix.Setgroups(groups); err == nil {
					conn, err = dialAt(path)
				}
				if err == nil {
					err = unix.Setgroups(nil)
				}
			}()
			<-done
			return conn, err
		})
		peer := examine(t, conn)
		if !slices.EqualFunc(peer.Groups, groups, func(a uint32, b int) bool { return int(a) == b }) {
			t.Errorf("%d groups: %d came, %v", n, len(peer.Groups), peer.Unknown)
		}
	}
}

// TestCgroupOfProcessThatEnded: information read about a process that has ended is not used, before and after its parent has waited
// for it. Nor is information about another process with the same number.
func TestCgroupOfProcessThatEnded(t *testing.T) {
	want := ownCgroup(t)
	cmd := exec.CommandContext(t.Context(), "cat")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	if got, err := cgroupOf(handle, int32(pid)); got != want || err != nil {
		t.Errorf("alive: %q, %v, want %q", got, err, want)
	}
	got, err := cgroupOf(handle, int32(os.Getpid()))
	if wantText(t, "another process's number", err, "another PID namespace"); got != "" {
		t.Errorf("another process's number: %q", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := cgroupOf(handle, int32(pid)); got != "" || !errors.Is(err, errEnded) {
		t.Errorf("not reaped: %q, %v", got, err)
	}
	_ = cmd.Wait() // returns an error, because the process was killed
	if got, err := cgroupOf(handle, int32(pid)); got != "" || !errors.Is(err, errEnded) {
		t.Errorf("reaped: %q, %v", got, err)
	}
}

// TestNoDescriptorOfAProcess: without SO_PEERPIDFD, a cgroup rule refuses clients and gives the reason.
func TestNoDescriptorOfAProcess(t *testing.T) {
	wantText(t, "an older kernel", noDescriptor(unix.ENOPROTOOPT), "this kernel has no SO_PEERPIDFD (Linux 6.5)")
	wantText(t, "another reason", noDescriptor(unix.EMFILE), unix.EMFILE.Error())
	if err := noDescriptor(unix.ESRCH); !errors.Is(err, errEnded) {
		t.Errorf("an ended process: %v", err)
	}
}

// inspectorEnv makes the test binary a broker in its own PID namespace, which inspects descriptor 3.
const inspectorEnv = "BROKER_TEST_INSPECT"

// TestPeerOfAnotherPIDNamespace: if the broker's namespace does not show a process's number, the process has a user and no cgroup
// for the broker.
func TestPeerOfAnotherPIDNamespace(t *testing.T) {
	if os.Getenv(inspectorEnv) != "" {
		conn, err := net.FileConn(os.NewFile(3, "connection"))
		if err == nil {
			err = unix.Mount("proc", "/proc", "proc", 0, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		peer := examine(t, conn.(*net.UnixConn))
		fmt.Printf("user %d, cgroup %q: %v\n", peer.UID, peer.Cgroup, peer.Unknown)
		return
	}
	netlabtest.NeedRoot(t) // for namespaces
	file, err := accepted(t, dialAt).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inspectorEnv+"=1")
	cmd.ExtraFiles = []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if want := `user 0, cgroup "": the client's cgroup is not known: its process is in a PID namespace`; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, want %q:\n%s", err, want, out)
	}
}
