package ndk

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// childRole is an environment variable with the role of this test binary when it starts itself.
const childRole = "NDXDP_TEST_CHILD"

// After every test has closed its objects, no goroutine of an adapter or of a callback may be left.
func TestMain(m *testing.M) {
	if os.Getenv(childRole) == "starve" {
		starve()
	}
	netlabtest.Overlap()
	os.Exit(testhelp.ExitStatus(m.Run()))
}

// starve opens an adapter while no file descriptor is free, and prints the number of the status.
func starve() {
	c, err := net.ListenUDP("udp4", nil) // afterwards the Go runtime's own descriptors exist
	if err == nil {
		defer c.Close()
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3})
	}
	var s Status
	if err == nil {
		_, err = OpenAdapter(AdapterConfig{Address: loopback[0], Datapath: "udp"})
	}
	if !errors.As(err, &s) {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print(uint32(s))
	os.Exit(0)
}

// starvedStatus returns the status of opening an adapter in a process without free file descriptors.
func starvedStatus(t *testing.T) (s Status) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.WaitDelay = patience
	cmd.Env = append(os.Environ(), childRole+"=starve")
	out, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), (*uint32)(&s))
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}
