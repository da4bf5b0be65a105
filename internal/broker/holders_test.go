package broker

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHolds finds the owner of a socket by its descriptor, and also by its mapped rings alone, which keep the queue in use.
func TestHolds(t *testing.T) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs AF_XDP sockets: %v", err)
	}
	s := &Server{}
	if err := s.remember([]int{fd}, 7); err != nil {
		t.Fatal(err)
	}
	o := ownersOf(s.given)
	self := fmt.Sprintf("/proc/%d", os.Getpid())
	want := func(when string, wanted bool) {
		t.Helper()
		if uid, has := holds(self, o); has != wanted || has && uid != 7 {
			t.Errorf("%s: held %t by a client of user %d, want %t", when, has, uid, wanted)
		}
	}
	want("open", true)
	if err := unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_RX_RING, 64); err != nil {
		t.Fatal(err)
	}
	ring, err := unix.Mmap(fd, unix.XDP_PGOFF_RX_RING, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	want("mapped only", true)
	if err := unix.Munmap(ring); err != nil {
		t.Fatal(err)
	}
	want("neither open nor mapped", false)
}

// TestWhoIsNotEnded: neither this process, nor a process of another user.
func TestWhoIsNotEnded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", r.Fd())) // stands for a socket
	if err != nil {
		t.Fatal(err)
	}
	me := uint32(os.Getuid())
	_, err = end(os.Getpid(), owners{link: me}, 0)
	wantText(t, "ourselves", err, "does not end init or itself")
	_, err = end(os.Getpid(), owners{link: me}, int32(os.Getpid()))
	wantText(t, "who asks", err, "the client that now requests")
	_, err = end(os.Getpid(), owners{link: me + 1}, 0)
	wantText(t, "another user's", err, "does not belong to")
	if _, err = end(os.Getpid(), owners{}, 0); !os.IsNotExist(err) {
		t.Errorf("one that holds nothing: %v", err)
	}
}
