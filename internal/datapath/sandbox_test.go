package datapath

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// Environment variables for the process that opens an adapter in a sandbox: the sandbox, the addresses of both sides of a pair, and
// the name of the interface.
const (
	sandboxVar  = "NDXDP_TEST_SANDBOX"
	sandboxAddr = "NDXDP_TEST_SANDBOX_ADDR"
	sandboxPeer = "NDXDP_TEST_SANDBOX_PEER"
	sandboxName = "NDXDP_TEST_SANDBOX_NAME"
)

// TestSandboxes: whatever a sandbox denies to a process, auto opens the datapath that was forecast, for the forecast reason, and
// the provider finds addresses and routes. If even plain sockets are denied, one sentence says what to allow.
func TestSandboxes(t *testing.T) {
	if os.Getenv(sandboxVar) != "" {
		openInSandbox(t)
		return
	}
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, c := range []struct {
		name, sandbox string
		say           string // part of the output
	}{
		{"AF_XDP is unknown", "xdp=EAFNOSUPPORT", "ring: AF_XDP needs a kernel that has it"},
		{"AF_XDP is not implemented", "xdp=ENOSYS", "ring: AF_XDP needs a kernel that has it"},
		{"AF_XDP is forbidden", "xdp=EPERM", "ring: AF_XDP needs privileges"},
		{"bpf is forbidden", "bpf=EPERM", "udp: AF_XDP needs to load an XDP program"},
		{"bpf is not implemented", "bpf=ENOSYS", "udp: AF_XDP needs to load an XDP program"},
		{"as in a container", "xdp=EPERM bpf=EPERM nobody", "udp: AF_XDP needs CAP_NET_RAW"},
		{"without rights", "nobody", "udp: AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, which this process lacks: run it as root, or do what ndinfo doctor "},
		{"without memory to lock", "nolock", "memory"},
		{"without /proc", "noproc", "udp: AF_XDP needs to load an XDP program: bpf: XDP steering is not available: Loading programs takes /proc, which is not mounted."},
		{"without /sys", "nosys", "foreseen"},
		{"without /proc and /sys, without rights", "noproc nosys nobody", "udp: "},
		{"without netlink", "netlink=EAFNOSUPPORT", "udp: AF_XDP and rings need to know the interface: netlink sockets are refused: permit AF_NETLINK"},
		{"netlink is forbidden", "netlink=EPERM", "permit AF_NETLINK"},
		{"without netlink and /proc", "netlink=EAFNOSUPPORT noproc", "udp: "},
		{"without Unix sockets", "unix=EAFNOSUPPORT", "tcx: "},
		{"Unix sockets are forbidden", "unix=EACCES nobody", "udp: "},
		{"IPv4 and IPv6 only", "xdp=EAFNOSUPPORT netlink=EAFNOSUPPORT unix=EAFNOSUPPORT packet=EAFNOSUPPORT", "udp: "},
		{"IPv4 and IPv6 only, without anything", "xdp=EPERM netlink=EPERM unix=EPERM bpf=EPERM memfd=EPERM timerfd=EPERM setaffinity=EPERM noproc nosys nobody", "udp: "},
		{"a kernel of its own", "xdp=EAFNOSUPPORT bpf=ENOSYS netlink=EPROTONOSUPPORT timerfd=ENOSYS memfd=ENOSYS", "udp: "},
		{"without timers", "timerfd=EPERM", "tcx: "},
		{"without sockets", "inet=EAFNOSUPPORT inet6=EAFNOSUPPORT", "refused: permit AF_INET"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestSandboxes$", "-test.v")
			cmd.Env = append(os.Environ(), sandboxVar+"="+c.sandbox, sandboxAddr+"="+pair.AddrA.Addr().String(),
				sandboxPeer+"="+pair.AddrB.Addr().String(), sandboxName+"="+pair.NameA)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			var said []byte
			err := pair.A.Do(func() (err error) {
				said, err = cmd.CombinedOutput()
				return err
			})
			if err != nil || !strings.Contains(string(said), c.say) {
				t.Errorf("%v, want %q:\n%s", err, c.say, said)
			}
		})
	}
}

// openInSandbox runs in that process.
func openInSandbox(t *testing.T) {
	sandbox := strings.Fields(os.Getenv(sandboxVar))
	addr, peer := netip.MustParseAddr(os.Getenv(sandboxAddr)), netip.MustParseAddr(os.Getenv(sandboxPeer))
	must(t, netlabtest.Confine(sandbox))
	cfg := plan.Config{Address: addr, Brokers: "/nonexistent", Arena: 4 << 20}
	p, i, err := foreseenAndOpened(os.Getenv(sandboxName), cfg)
	if slices.Contains(sandbox, "inet=EAFNOSUPPORT") {
		if err == nil || !strings.Contains(err.Error(), "permit sockets of AF_INET and AF_INET6") || strings.Contains(err.Error(), "\n") {
			t.Errorf("opened without sockets: %+v, %v", i, err)
		}
		t.Log("refused: permit AF_INET")
		return
	}
	if err != nil || p.Datapath != i.Datapath || p.Reason != i.Reason {
		t.Errorf("%s (%s) was foreseen, %s (%s) opened: %v", p.Datapath, p.Reason, i.Datapath, i.Reason, err)
	}
	t.Logf("as foreseen: %s: %s", i.Datapath, i.Reason)
	loop := cfg
	loop.Address = netip.MustParseAddr("127.0.0.1")
	if p, i, err = foreseenAndOpened("lo", loop); err != nil || i.Datapath != plan.UDP || p.Reason != i.Reason || !strings.Contains(i.Reason, "AF_XDP needs Ethernet") {
		t.Errorf("loopback: %s (%s) was foreseen, %s (%s) opened: %v", p.Datapath, p.Reason, i.Datapath, i.Reason, err)
	}
	all, err := host.OpenAddresses()
	must(t, err)
	list, err := all.List()
	if err != nil || !slices.Contains(list, addr) {
		t.Errorf("addresses %v, %v", list, err)
	}
	if src, err := all.Source(peer); err != nil || src != addr {
		t.Errorf("the source to %s is %s, %v", peer, src, err)
	}
	if src, err := all.Source(netip.MustParseAddr("203.0.113.1")); !errors.Is(err, host.ErrNoRoute) {
		t.Errorf("where there is no route the source is %s, %v", src, err)
	}
	all.Close()
	cfg.Datapath = plan.UDP
	d, err := Open(cfg)
	must(t, err)
	must(t, d.Resolve(context.Background(), peer))
	if err := d.Resolve(context.Background(), netip.MustParseAddr("203.0.113.1")); !errors.Is(err, host.ErrNoRoute) {
		t.Errorf("resolved where there is no route: %v", err)
	}
	must(t, d.Close())
}
