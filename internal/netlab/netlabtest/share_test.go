package netlabtest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// tellShare makes the test binary print its port and address, and wait for the end of its input.
const tellShare = "NETLABTEST_TELL_SHARE"

func TestFreePortIsFree(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(FreePort(t))})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// A port of a UDP or TCP socket, at any address, is not given out.
func TestFreePortPassesPortsInUse(t *testing.T) {
	first := FreePort(t)
	u, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(first)})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	second := FreePort(t)
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(second)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 * portsOfShare {
		if port := FreePort(t); port == first || port == second {
			t.Fatalf("port %d is given, which a socket has", port)
		}
	}
}

// Addresses belong to the loopback interface, and no two tests get the same one.
func TestLoopback(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for range 1000 {
		for _, addr := range Loopback() {
			if !addr.IsLoopback() || seen[addr] {
				t.Fatalf("%v, given before: %t", addr, seen[addr])
			}
			seen[addr] = true
		}
	}
}

// Only one caller at a time has the default port.
func TestDefaultPortIsExclusive(t *testing.T) {
	var users atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			giveBack, err := DefaultPort()
			if err != nil {
				t.Error(err)
				return
			}
			if n := users.Add(1); n != 1 {
				t.Errorf("%d have the default port", n)
			}
			runtime.Gosched() // another caller could take it here
			users.Add(-1)
			if err := giveBack(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Concurrent processes get different ports and addresses.
func TestProcessesShare(t *testing.T) {
	if os.Getenv(tellShare) != "" {
		fmt.Println("given", FreePort(t), Loopback())
		_, _ = fmt.Scanln()
		return
	}
	const processes = 8
	var given []string
	for range processes {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestProcessesShare$") // ends with its input
		cmd.Env, cmd.Stderr = append(os.Environ(), tellShare+"=1"), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
		var port uint16
		var first, second string
		if _, err := fmt.Fscanf(out, "given %d [%s %s\n", &port, &first, &second); err != nil {
			t.Fatal(err)
		}
		given = append(given, fmt.Sprint(port), first, strings.TrimSuffix(second, "]"))
	}
	slices.Sort(given)
	if n := len(slices.Compact(slices.Clone(given))); n != 3*processes {
		t.Errorf("%d different ones were given to %d processes: %v", n, processes, given)
	}
}
