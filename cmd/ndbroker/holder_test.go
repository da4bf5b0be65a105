package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// keeper is the role string of a client that does nothing until it is killed.
const keeper = "keep"

// handOn gets sockets from a broker, starts a process that keeps one of them, and ends.
func handOn(socket string, local netip.Addr) error {
	lease, err := broker.Dial(socket, broker.Request{Address: local, UDPPort: defaultUDPPort, Datapath: "generic"})
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), clientEnv+"="+keeper)
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(lease.Sockets[0]), "AF_XDP")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid)
	return nil
}

// TestSocketOutlivesItsLease: a process that keeps a socket of an ended client does not block the next client, because the broker ends
// the process when that client asks.
func TestSocketOutlivesItsLease(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := pair.AddrA.Addr().String()
	socket, _ := startBroker(t, pair.A, pair.NameA, nobody)
	first := startClient(t, pair.A, "hand-on", socket, a, a)
	var pid int
	if _, err := fmt.Fscanln(first.ready, &pid); err != nil {
		t.Fatalf("%v\n%s", err, &first.stderr)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // usually ended by then
	first.wantSuccess(t, "the client that hands on")
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the keeper: %v", err)
	}
	second := startClient(t, pair.A, "hold", socket, a, a)
	second.awaitReady(t)
	if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(state), ") Z ") {
		t.Errorf("the keeper lives: %s", state)
	}
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.cmd.Wait() // killed
	wantClean(t, pair)
}

// TestSocketOfAnotherUser: a client cannot make the broker end processes of other users by passing a socket to them. The next client gets
// an error that names the process.
func TestSocketOfAnotherUser(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := pair.AddrA.Addr().String()
	socket, _ := startBroker(t, pair.A, pair.NameA, nobody)
	receiver, sender, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	first := startClient(t, pair.A, "give", socket, a, a, sender)
	sender.Close()
	got, err := takeDescriptor(receiver) // this process is root, and has the descriptor now
	if err != nil {
		t.Fatal(err, first.cmd.Wait(), &first.stderr)
	}
	first.wantSuccess(t, "the client that gives")
	second := startClient(t, pair.A, "hold", socket, a, a)
	if err := second.cmd.Wait(); err == nil || !strings.Contains(second.stderr.String(), fmt.Sprintf("process %d", os.Getpid())) ||
		!strings.Contains(second.stderr.String(), "keeps a socket of an earlier client") {
		t.Errorf("%v\n%s", err, &second.stderr)
	}
	if err := unix.Close(got); err != nil {
		t.Error(err)
	}
	wantClean(t, pair)
}

// give passes a socket from a broker on over descriptor 3, and ends after it was received.
func give(socket string, local netip.Addr) error {
	lease, err := broker.Dial(socket, broker.Request{Address: local, UDPPort: defaultUDPPort, Datapath: "generic"})
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(3, []byte{1}, unix.UnixRights(lease.Sockets[0]), nil, 0); err != nil {
		return err
	}
	_, err = unix.Read(3, make([]byte, 1))
	return err
}

func socketPair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	return os.NewFile(uintptr(fds[0]), "receiver"), os.NewFile(uintptr(fds[1]), "sender"), err
}

// takeDescriptor receives a descriptor, and confirms it.
func takeDescriptor(from *os.File) (int, error) {
	fd, control := int(from.Fd()), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(err, errors.New("no descriptor came"))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	_, err = unix.Write(fd, []byte{1})
	return fds[0], err
}
