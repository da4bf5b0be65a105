package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

// syscallCounter counts system calls of one thread, by the kernel's tracepoint.
type syscallCounter struct {
	fd  int
	own uint64 // what a look costs
}

// newSyscallCounter counts the system calls of the calling thread, which stays with the goroutine.
func newSyscallCounter(t *testing.T) *syscallCounter {
	t.Helper()
	id, err := sysEnterID(t.TempDir())
	if err != nil {
		t.Skipf("the kernel's tracepoints cannot be read, which counting system calls needs (tracefs, CONFIG_FTRACE_SYSCALLS): %v", err)
	}
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Size: unix.PERF_ATTR_SIZE_VER0, Config: id}
	c := &syscallCounter{}
	if c.fd, err = unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC); err != nil {
		t.Skipf("perf_event_open is refused, which counting system calls needs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(c.fd) })
	c.own = math.MaxUint64
	for range 100 { // the Go runtime sometimes makes calls of its own
		first := c.read(t)
		c.own = min(c.own, c.read(t)-first)
	}
	return c
}

func (c *syscallCounter) read(t *testing.T) uint64 {
	var b [8]byte
	if _, err := unix.Read(c.fd, b[:]); err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint64(b[:])
}

// in returns the number of system calls that do makes.
func (c *syscallCounter) in(t *testing.T, do func()) uint64 {
	before := c.read(t)
	do()
	return c.read(t) - before - c.own
}

// sysEnterID reads the number of the tracepoint from a tracefs that only one thread sees. This thread ends with the call.
func sysEnterID(dir string) (uint64, error) {
	type answer struct {
		id  uint64
		err error
	}
	said := make(chan answer)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends together with its mounts
		err := unix.Unshare(unix.CLONE_NEWNS)
		err = errors.Join(err, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tracefs", dir, "tracefs", 0, ""))
		if err != nil {
			said <- answer{0, err}
			return
		}
		text, err := os.ReadFile(filepath.Join(dir, "events/raw_syscalls/sys_enter/id"))
		if err != nil {
			said <- answer{0, err}
			return
		}
		id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		said <- answer{id, err}
	}()
	a := <-said
	return a.id, a.err
}

// bothEnds holds two adapters, which one thread polls in turn. When a call that sends a message returns, the message has reached the other
// adapter.
type bothEnds struct {
	t    *testing.T
	ends [2]*nd.Endpoint
	mark byte
	res  [64]nd.Result
}

func newBothEnds(t *testing.T, datapath nd.Datapath) *bothEnds {
	t.Helper()
	addrs := [2]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	in := [2]func(func() error) error{here, here}
	port := uint16(0)
	if datapath != nd.DatapathUDP {
		pair, _ := newPair(t, netlab.PairConfig{})
		addrs = [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}
		in = [2]func(func() error) error{pair.A.Do, pair.B.Do}
	} else {
		port = netlabtest.FreePort(t)
	}
	var adapters [2]*nd.Adapter
	for i := range adapters {
		err := in[i](func() (err error) {
			adapters[i], err = nd.OpenAdapter(nd.AdapterConfig{Address: addrs[i], Datapath: datapath, UDPPort: port})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = adapters[i].Close() }) // other tests check for leaks
	}
	cfg := nd.EndpointConfig{Adapter: adapters[1], MemoryBytes: 2 * messageSize, Rights: nd.MRAllowRemoteWrite, Depth: 64}
	l, err := nd.Listen(netip.AddrPortFrom(addrs[1], 9000), cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &bothEnds{t: t}
	accepted := make(chan error, 1)
	go func() {
		var err error
		b.ends[1], err = l.Accept(t.Context())
		accepted <- err
	}()
	cfg.Adapter = adapters[0]
	b.ends[0], err = nd.Dial(t.Context(), netip.AddrPortFrom(addrs[1], 9000), cfg)
	if err := errors.Join(err, <-accepted); err != nil {
		t.Fatal(err)
	}
	return b
}

// exchange sends one message in each direction.
func (b *bothEnds) exchange() {
	b.mark = next(b.mark)
	for side := range 2 {
		if err := say(b.ends[side], b.mark); err != nil {
			b.t.Fatal(err)
		}
		for buf := b.ends[1-side].Memory.Bytes(); buf[messageSize-1] != b.mark; {
			b.look()
		}
	}
}

// look polls both ends. A lost connection fails the test, because nothing arrives on it.
func (b *bothEnds) look() {
	for _, e := range b.ends {
		for _, r := range b.res[:e.Queue.GetResults(b.res[:])] {
			if r.Status != nd.StatusSuccess {
				b.t.Fatal(r.Status)
			}
		}
	}
}

// list sends 32 messages in one list, and waits until they are complete.
func (b *bothEnds) list() {
	e := b.ends[0]
	for i := range 32 {
		flags := nd.OpSilentSuccess | nd.OpDefer
		if i == 31 {
			flags = 0
		}
		if err := e.QueuePair.Write(0, []nd.SGE{e.Memory.SGE(messageSize, messageSize)}, e.Peer.Address, e.Peer.Token, flags); err != nil {
			b.t.Fatal(err)
		}
	}
	for e.Queue.GetResults(b.res[:]) == 0 {
		b.ends[1].Queue.GetResults(b.res[:])
	}
	if b.res[0].Status != nd.StatusSuccess {
		b.t.Fatal(b.res[0].Status)
	}
}

// commonest calls do often, and returns the count that occurs in most rounds. Rounds in which another thread interfered, or this thread
// was descheduled, are a minority on any machine that completes the test.
func commonest(t *testing.T, c *syscallCounter, do func()) uint64 {
	seen, best := map[uint64]int{}, uint64(0)
	for i := range 2000 {
		if i%50 == 0 {
			time.Sleep(50 * time.Microsecond) // other threads may need the core of this thread
		}
		n := c.in(t, do)
		if seen[n]++; seen[n] > seen[best] {
			best = n
		}
	}
	return best
}

// ahead gives this thread the highest priority on the machine until end is called. Each time that a poller is descheduled for a
// millisecond, the progress goroutine does part of its work for some rounds. Beside six busy processes these rounds were the majority.
func ahead(t *testing.T) (end func()) {
	const resetOnFork = 1
	rt := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Flags: resetOnFork, Priority: 1}
	if err := unix.SchedSetAttr(0, &rt, 0); err != nil {
		t.Logf("no real-time priority, counts may be those of a busy machine: %v", err)
		return func() {}
	}
	return func() {
		usual := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
		if err := unix.SchedSetAttr(0, &usual, 0); err != nil {
			t.Error(err)
		}
	}
}

// TestSystemCalls compares the number of system calls of messages, on each datapath, with a table. -update rewrites the table, and a
// reviewer decides about the change.
func TestSystemCalls(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector reports what one-sided Writes are: memory that changes while a program polls it")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer ahead(t)()
	c := newSyscallCounter(t)
	var out bytes.Buffer
	for _, datapath := range []nd.Datapath{nd.DatapathGeneric, nd.DatapathNative, nd.DatapathUDP} {
		b := newBothEnds(t, datapath)
		for range 100 {
			b.exchange()
		}
		for _, x := range []struct {
			name string
			do   func()
		}{
			{"a look at nothing, both ends", b.look},
			{"a message of 64 bytes there and one back", b.exchange},
			{"32 messages of 64 bytes in a list", b.list},
		} {
			fmt.Fprintf(&out, "%s: %s: %d\n", datapath, x.name, commonest(t, c, x.do))
		}
	}
	testhelp.Golden(t, "system calls of messages", "testdata/syscalls.golden", out.Bytes(), *update)
}
