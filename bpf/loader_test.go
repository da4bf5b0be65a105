package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// childEnv makes this test binary attach to nd0 and wait to be killed.
const childEnv = "NDXDP_TEST_ATTACH"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		s, err := Attach(Config{Interface: "nd0"})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("attached", programID(s))
		time.Sleep(time.Hour)
	}
	if os.Getenv(ringRightsEnv) != "" {
		const lo = 1
		_, err := AttachRing(lo, netip.MustParseAddrPort("127.0.0.1:7"))
		fmt.Println(err)
		return
	}
	os.Exit(m.Run())
}

// programID returns the kernel's id of the program, as bpftool prog shows it, or 0 if the kernel does not report it.
func programID(s *Steering) uint32 {
	info, err := s.objects.NdSteer.Info()
	if err != nil {
		return 0
	}
	id, _ := info.ID()
	return uint32(id)
}

func newPair(t *testing.T, cfg netlab.PairConfig) *netlab.Pair {
	t.Helper()
	requireSupport(t)
	return netlabtest.Pair(t, cfg)
}

func attachIn(n *netlab.Namespace, cfg Config) (s *Steering, err error) {
	err = n.Do(func() error {
		s, err = Attach(cfg)
		return err
	})
	return s, err
}

func programIDs(t *testing.T) map[uint32]ProgramInfo {
	t.Helper()
	programs, err := Programs()
	if err != nil {
		t.Fatal(err)
	}
	byID := map[uint32]ProgramInfo{}
	for _, p := range programs {
		byID[p.ID] = p
	}
	return byID
}

func TestAttachCountsAndDetaches(t *testing.T) {
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		t.Run(mode.String(), func(t *testing.T) {
			p := newPair(t, netlab.PairConfig{Queues: 2})
			s, err := attachIn(p.A, Config{Interface: p.NameA, Mode: mode, Queues: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if s.cfg.Mode != mode || s.cfg.Port != DefaultPort {
				t.Errorf("mode %s, port %d", s.cfg.Mode, s.cfg.Port)
			}
			id := programID(s)
			info, ok := programIDs(t)[id]
			if !ok || info.Ifindex != p.IfindexA || info.PID != os.Getpid() || info.LinkID == 0 {
				t.Errorf("listed as %+v, %t", info, ok)
			}
			if err := s.AddAddress(p.AddrA.Addr()); err != nil {
				t.Fatal(err)
			}
			// Without a socket every frame still reaches the kernel, and is counted.
			exchange(t, p, DefaultPort)
			exchange(t, p, 9)
			c, err := s.Counters()
			if err != nil {
				t.Fatal(err)
			}
			if c[VerdictNoSocket] != 1 || c[VerdictOtherPort] != 1 || c[VerdictNotIP] == 0 { // ARP
				t.Errorf("counters %v", c)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if id, err := attachedIn(p.A, p.IfindexA); id != 0 || err != nil {
				t.Errorf("program %d is attached after Close, %v", id, err)
			}
			awaitUnloaded(t, id)
			again, err := attachIn(p.A, Config{Interface: p.NameA, Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// awaitUnloaded waits until the kernel has freed a program: another process that lists programs holds each for a moment.
func awaitUnloaded(t *testing.T, id uint32) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, loaded := programIDs(t)[id]; !loaded {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("program %d is still loaded", id)
		}
	}
}

// exchange sends one datagram from B to a socket of A.
func exchange(t *testing.T, p *netlab.Pair, port uint16) {
	t.Helper()
	to := netip.AddrPortFrom(p.AddrA.Addr(), port)
	var receiver, sender *net.UDPConn
	err := p.A.Do(func() (err error) {
		receiver, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(to))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	err = p.B.Do(func() (err error) {
		sender, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	if _, err := sender.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := receiver.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := receiver.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
}

func TestAttachRefusesOurOwn(t *testing.T) {
	p := newPair(t, netlab.PairConfig{})
	first, err := attachIn(p.A, Config{Interface: p.NameA})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		_, err := attachIn(p.A, Config{Ifindex: p.IfindexA, Mode: mode})
		held, ok := errors.AsType[*HeldError](err)
		if !ok || !errors.Is(err, ErrHeld) {
			t.Fatalf("%s: %v", mode, err)
		}
		t.Log(err)
		if held.ProgramID != programID(first) || !held.Ours || held.PID != os.Getpid() || held.HolderMode != "generic" {
			t.Errorf("%s: %+v", mode, held)
		}
	}
	// The refused attachment has changed nothing.
	if id, err := attachedIn(p.A, p.IfindexA); err != nil || id != programID(first) {
		t.Errorf("program %d, %v", id, err)
	}
}

func attachedIn(n *netlab.Namespace, ifindex int) (id uint32, err error) {
	err = n.Do(func() error {
		id, _, err = attachedProgram(ifindex)
		return err
	})
	return id, err
}

func TestAttachRefusesForeign(t *testing.T) {
	p := newPair(t, netlab.PairConfig{})
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "firewall", Type: ebpf.XDP, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	var attached link.Link
	err = p.A.Do(func() (err error) {
		attached, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: p.IfindexA, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close()
	_, err = attachIn(p.A, Config{Interface: p.NameA})
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Ours || held.ProgramName != "firewall" || held.HolderMode != "native" || held.LinkID == 0 {
		t.Fatalf("%v (%+v)", err, held)
	}
	t.Log(err)
	// The same program on another interface, without a link: the error must not name the link of the first interface.
	err = p.A.Do(func() error {
		const lo = 1
		if err := netlink.LinkSetXdpFdWithFlags(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: lo}}, program.FD(), unix.XDP_FLAGS_SKB_MODE); err != nil {
			return err
		}
		held, err := Holder(lo, "lo")
		if err == nil && (held == nil || held.LinkID != 0 || held.Remedy() != "ip link set dev lo xdpgeneric off") {
			t.Errorf("on lo: %+v", held)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The error of the kernel if another process attaches a program after the query.
	err = p.A.Do(func() error {
		return attachFailure(Config{Interface: p.NameA, Ifindex: p.IfindexA}, syscall.EBUSY)
	})
	if !errors.Is(err, ErrHeld) {
		t.Errorf("EBUSY became %v", err)
	}
}

// A killed process leaves nothing behind: its link ends with it.
func TestKilledProcessDetaches(t *testing.T) {
	p := newPair(t, netlab.PairConfig{})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe)
	child.Env = append(os.Environ(), childEnv+"=1")
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.A.StartProcess(child); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "attached") {
		t.Fatalf("child said %q, %v", line, err)
	}
	_, err = attachIn(p.A, Config{Interface: p.NameA})
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.PID != child.Process.Pid || !held.Ours || held.Comm == "" {
		t.Errorf("%v (%+v)", err, held)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // returns an error, because the process was killed
	s, err := attachIn(p.A, Config{Interface: p.NameA})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Closing after the interface is gone is not an error.
func TestCloseAfterInterface(t *testing.T) {
	p := newPair(t, netlab.PairConfig{})
	s, err := attachIn(p.A, Config{Interface: p.NameA})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The loopback driver has no native mode.
func TestAttachNativeRefused(t *testing.T) {
	p := newPair(t, netlab.PairConfig{})
	_, err := attachIn(p.A, Config{Interface: "lo", Mode: ModeNative})
	failed, ok := errors.AsType[*AttachError](err)
	if !ok || failed.Op != "attach" || !strings.Contains(failed.Remedy, "use generic mode") {
		t.Errorf("%v (%+v)", err, failed)
	}
	if id, err := attachedIn(p.A, 1); id != 0 || err != nil {
		t.Errorf("program %d, %v", id, err)
	}
}

// The program accepts frames of several buffers, so the largest MTU is no reason to refuse.
func TestAttachAtLargestMTU(t *testing.T) {
	p := newPair(t, netlab.PairConfig{MTU: 65535})
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		s, err := attachIn(p.A, Config{Interface: p.NameA, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAttachRemedies(t *testing.T) {
	native := Config{Ifindex: 1, Interface: "lo", Mode: ModeNative}
	for _, test := range []struct {
		cfg  Config
		err  error
		want string
	}{
		{native, syscall.ERANGE, "at MTU 6"},
		{native, syscall.EOPNOTSUPP, "use generic mode"},
		{native, syscall.ENOSPC, "transmit queues"},
		{Config{Ifindex: 1}, syscall.EPERM, "CAP_NET_ADMIN"},
		{Config{Ifindex: 1}, ebpf.ErrNotSupported, "5.9"},
	} {
		err := attachFailure(test.cfg, test.err)
		if !strings.Contains(err.Error(), test.want) || !errors.Is(err, test.err) {
			t.Errorf("%v: %v, want %q in it", test.err, err, test.want)
		}
	}
	requireSupport(t)
	if err := loadRemedy(errors.New("verifier")); err != "" {
		t.Errorf("remedy %q on a kernel that has everything", err)
	}
}
