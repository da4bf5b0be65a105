package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// In each test here a set-up is broken in one way, as in docs/OPERATING.md#troubleshooting. The cause is named by doctor, or by the error
// of the program that fails.

func TestBrokenMTU(t *testing.T) {
	t.Parallel()
	d := doctor(t, netlabtest.Pair(t, netlab.PairConfig{MTU: 1000}).A, "nd0")
	wantFinding(t, &d, "mtu", ndhealth.Problem, "MTU 1000", "ip link set nd0 mtu 1500")
}

func TestBrokenForeignXDPProgram(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	foreign, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "foreign", Type: ebpf.XDP, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	must(t, err)
	defer foreign.Close()
	must(t, pair.A.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: foreign, Interface: pair.IfindexA, Flags: link.XDPGenericMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}))
	d := doctor(t, pair.A, "nd0")
	wantFinding(t, &d, "xdp program", ndhealth.Hint, `"foreign" is attached in generic mode`, "kill "+strconv.Itoa(os.Getpid()))
	if r := d.Reports[0]; r.Datapath != "tcx" {
		t.Errorf("doctor says of auto: %+v", r)
	}
	d = doctor(t, pair.A, "nd0", "--datapath", "generic")
	wantFinding(t, &d, "xdp program", ndhealth.Problem, "never replaced", "--datapath auto")
	// It does not affect plain sockets.
	if d := doctor(t, pair.A, "nd0", "--datapath", "udp"); !d.Works {
		t.Errorf("%+v", d)
	}
	_, err = openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr(), Datapath: nd.DatapathGeneric})
	if err == nil || !strings.Contains(err.Error(), "another XDP program is attached") {
		t.Errorf("opening it: %v", err)
	}
	a, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr()})
	must(t, err)
	if i := a.Datapath(); i.Datapath != nd.DatapathTCX {
		t.Errorf("opening what there is: %+v", i)
	}
}

func TestBrokenMissingCapability(t *testing.T) {
	t.Parallel()
	d := doctorAsNobody(t, netlabtest.Pair(t, netlab.PairConfig{}).A, "nd0", "--datapath", "generic")
	wantFinding(t, &d, "capabilities", ndhealth.Problem, "CAP_NET_ADMIN", "sudo setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep")
}

// TestBrokenLockedMemory: a process that has all privileges but may lock no memory gets plain sockets and a ring. It is told so before it
// opens them, and when it does.
func TestBrokenLockedMemory(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	self, err := os.Executable()
	must(t, err)
	unlocked := func(args ...string) diagnosis {
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "prlimit", append([]string{"--memlock=0:0", "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", self}, args...)...)
		cmd.Env, cmd.Stdout = append(os.Environ(), runAgain+"=1"), &out
		must(t, pair.A.StartProcess(cmd))
		err := cmd.Wait()
		return diagnosed(t, out.Bytes(), err, err != nil)
	}
	d := unlocked("doctor", "--json", "nd0", "--selftest", "--duration", "50ms")
	wantFinding(t, &d, "locked memory", ndhealth.Hint, "0 bytes may be pinned", "ulimit -l unlimited")
	if r := d.Reports[0]; r.Datapath != "ring" || !strings.Contains(r.Reason, "may lock 0 KiB") {
		t.Errorf("doctor says of auto: %+v", r)
	}
	if s := d.SelfTest; s == nil || !s.Works || !strings.Contains(s.Said, "nd0 opened with datapath ring") {
		t.Errorf("opening what there is: %+v", s)
	}
	d = unlocked("doctor", "--json", "nd0", "--datapath", "generic")
	wantFinding(t, &d, "locked memory", ndhealth.Problem, "0 bytes may be pinned", "ulimit -l unlimited")
}

func TestBrokenInterfaceDown(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	down := func(ns *netlab.Namespace) {
		must(t, ns.Do(func() error {
			return netlink.LinkSetDown(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexA}})
		}))
	}
	down(pair.A)
	d := doctor(t, pair.A, "nd0")
	wantFinding(t, &d, "interface", ndhealth.Problem, "nd0 is down", "ip link set nd0 up")
	_, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr(), Datapath: nd.DatapathGeneric})
	if err == nil || !strings.Contains(err.Error(), "ip link set nd0 up") {
		t.Errorf("opening it: %v", err)
	}
	a, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr()})
	must(t, err)
	if i := a.Datapath(); i.Datapath != nd.DatapathUDP || !strings.Contains(i.Reason, "ip link set nd0 up") {
		t.Errorf("opening what there is: %+v", i)
	}
	d = doctor(t, pair.B, "nd0") // the other end is up, and gets no answers
	wantFinding(t, &d, "interface", ndhealth.Problem, "no carrier", "ip link set PEER up")
}

// queued makes a veth pair in one namespace whose ends have different numbers of queues.
func queued(t *testing.T, rx, tx int) *netlab.Namespace {
	t.Helper()
	ns := netlabtest.Namespace(t)
	must(t, ns.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "q0", rx, tx
		veth := netlink.NewVeth(attrs)
		veth.PeerName, veth.PeerNumRxQueues, veth.PeerNumTxQueues = "q1", uint32(rx), uint32(tx)
		addr, err := netlink.ParseAddr("10.98.0.1/24")
		return errors.Join(err, netlink.LinkAdd(veth), netlink.AddrAdd(veth, addr), netlink.LinkSetUp(veth),
			netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "q1"}}))
	}))
	return ns
}

func TestBrokenQueueMismatch(t *testing.T) {
	t.Parallel()
	ns := queued(t, 4, 1)
	d := doctor(t, ns, "q0")
	wantFinding(t, &d, "queues", ndhealth.Hint, "4 receive and 1 transmit queues", "ethtool -L q0 rx 1 tx 1")
	d = doctor(t, ns, "q0", "--datapath", "generic")
	wantFinding(t, &d, "queues", ndhealth.Problem, "4 receive and 1 transmit queues", "ethtool -L q0 rx 1 tx 1")
	const refusal = "it receives on 4 queues and can send on 1 only"
	_, err := openIn(t, ns, nd.AdapterConfig{Address: netip.MustParseAddr("10.98.0.1"), Datapath: nd.DatapathGeneric})
	if err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("opening it: %v", err)
	}
	a, err := openIn(t, ns, nd.AdapterConfig{Address: netip.MustParseAddr("10.98.0.1")})
	must(t, err)
	if i := a.Datapath(); i.Datapath != nd.DatapathRing || !strings.Contains(i.Reason, refusal) {
		t.Errorf("opening what there is: %+v", i)
	}
	// With more transmit queues, the kernel refuses native mode because of the other end.
	_, err = openIn(t, queued(t, 1, 4), nd.AdapterConfig{Address: netip.MustParseAddr("10.98.0.1"), Datapath: nd.DatapathNative})
	if err == nil || !strings.Contains(err.Error(), "the queues do not match") || !strings.Contains(err.Error(), "ethtool -L") {
		t.Errorf("opening it: %v", err)
	}
}

func TestBrokenBlockedPort(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	must(t, pair.A.Do(func() error {
		s, err := net.ListenUDP("udp", &net.UDPAddr{Port: nd.DefaultUDPPort})
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return err
	}))
	d := doctor(t, pair.A, "nd0")
	wantFinding(t, &d, "udp port", ndhealth.Problem, "UDP port 14791 of 10.99.0.1 is taken by process "+strconv.Itoa(os.Getpid()), "ss -ulpn")
	if d := doctor(t, pair.A, "nd0", "--udp-port", "14792"); !d.Works {
		t.Errorf("another port: %+v", d)
	}
	_, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr()})
	if err == nil || !strings.Contains(err.Error(), "reserve UDP port 14791") {
		t.Errorf("opening it: %v", err)
	}
}

// granted returns the socket buffer in bytes that the kernel grants to a request without privileges.
func granted(t *testing.T, option, size int) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size))
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	must(t, err)
	return n / 2 // the kernel doubles it
}

// An ordinary user gets the buffer that net.core.wmem_max and rmem_max allow, and is told so. Root gets all of it. A namespace has no
// limits of its own, and a test must not change the host's. If these allow everything, nothing is broken.
func TestBrokenTinySendBuffer(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	const want = 32 << 20
	send, receive := granted(t, unix.SO_SNDBUF, want), granted(t, unix.SO_RCVBUF, want)
	if send >= want && receive >= want {
		t.Skipf("net.core.wmem_max and rmem_max of this host allow %d bytes: no buffer is small", want)
	}
	text := func(n int) string {
		if n >= 10<<20 {
			return fmt.Sprintf("%d MiB", n>>20)
		}
		return fmt.Sprintf("%d KiB", n>>10)
	}
	d := doctorAsNobody(t, pair.A, "nd0", "--datapath", "udp")
	wantFinding(t, &d, "socket buffers", ndhealth.Hint, fmt.Sprintf("get %s to send and %s to receive, of 32 MiB", text(send), text(receive)),
		"sysctl -w net.core.wmem_max=33554432 net.core.rmem_max=33554432")
	d = doctor(t, pair.A, "nd0", "--datapath", "udp")
	wantFinding(t, &d, "socket buffers", ndhealth.OK, "get 32 MiB to send and 32 MiB to receive", "")
}

func openIn(t *testing.T, ns *netlab.Namespace, cfg nd.AdapterConfig) (a *nd.Adapter, err error) {
	t.Helper()
	err = ns.Do(func() error {
		a, err = nd.OpenAdapter(cfg)
		return err
	})
	if err == nil {
		t.Cleanup(func() { must(t, a.Close()) })
	}
	return a, err
}

func TestBrokenPeerOnAnotherUDPPort(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	b, err := openIn(t, pair.B, nd.AdapterConfig{Address: pair.AddrB.Addr(), UDPPort: 14792})
	must(t, err)
	peer := b.QueryAddressList()[0].String()
	d := doctor(t, pair.A, "nd0", "--peer", peer)
	wantFinding(t, &d, "peer", ndhealth.Problem, "no process has UDP port 14791", "--udp-port")
	d = doctor(t, pair.A, "nd0", "--peer", peer, "--udp-port", "14792")
	wantFinding(t, &d, "peer", ndhealth.OK, "an adapter answers", "")

	a, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr()})
	must(t, err)
	_, err = nd.Dial(t.Context(), netip.AddrPortFrom(pair.AddrB.Addr(), 7000), nd.EndpointConfig{Adapter: a})
	if !errors.Is(err, nd.ErrConnectionRefused) || !strings.Contains(err.Error(), "no process has UDP port 14791 of 10.99.0.2") {
		t.Errorf("connecting: %v", err)
	}
}

func TestBrokenNoNeighbour(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := doctor(t, pair.A, "nd0", "--peer", "10.99.0.77")
	wantFinding(t, &d, "peer", ndhealth.Problem, "no answer to neighbour resolution", "ip neigh show 10.99.0.77 dev nd0")
	d = doctor(t, pair.A, "nd0", "--peer", "203.0.113.1")
	wantFinding(t, &d, "peer", ndhealth.Problem, "no way to the peer", "ip route get fibmatch 203.0.113.1")
}

func TestBrokenReceiverStarved(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	a, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr()})
	must(t, err)
	b, err := openIn(t, pair.B, nd.AdapterConfig{Address: pair.AddrB.Addr()})
	must(t, err)
	at := netip.AddrPortFrom(pair.AddrB.Addr(), 7000)
	l, err := nd.Listen(at, nd.EndpointConfig{Adapter: b})
	must(t, err)
	defer l.Close()
	accepted := make(chan *nd.Endpoint, 1)
	go func() {
		e, err := l.Accept(ctx) // it never posts a receive
		if err != nil {
			t.Error(err)
		}
		accepted <- e
	}()
	e, err := nd.Dial(ctx, at, nd.EndpointConfig{Adapter: a})
	must(t, err)
	defer e.Close()
	if server := <-accepted; server != nil {
		defer server.Close()
	}
	must(t, e.QueuePair.Send(1, []nd.SGE{e.Memory.SGE(0, 8)}, 0))
	_, err = e.Result(ctx)
	if !errors.Is(err, nd.ErrIOTimeout) || !strings.Contains(err.Error(), "posted no receive") {
		t.Errorf("sending: %v", err)
	}
}

// TestPeerOfAnotherFamilyThanTheFirstAddress: the peer is asked from an address of its own family, or the finding says that there is
// none.
func TestPeerOfAnotherFamilyThanTheFirstAddress(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{Addr6A: netip.MustParsePrefix("fd99::1/64"), Addr6B: netip.MustParsePrefix("fd99::2/64")})
	_, err := openIn(t, pair.B, nd.AdapterConfig{Address: pair.Addr6B.Addr()})
	must(t, err)
	d := doctor(t, pair.A, "nd0", "--peer", "fd99::2")
	wantFinding(t, &d, "peer", ndhealth.OK, "an adapter answers at fd99::2", "")

	pair = netlabtest.Pair(t, netlab.PairConfig{Addr6A: netip.MustParsePrefix("fe80::a/64"), Addr6B: netip.MustParsePrefix("fe80::b/64")})
	_, err = openIn(t, pair.B, nd.AdapterConfig{Address: pair.Addr6B.Addr()})
	must(t, err)
	onlyLinkLocal(t, pair.A, pair.Addr6A)
	d = doctor(t, pair.A, "nd0", "--peer", "fe80::b%nd0")
	wantFinding(t, &d, "peer", ndhealth.OK, "an adapter answers at fe80::b", "")
	d = doctor(t, pair.A, "nd0", "--peer", "fe80::a%nd0")
	wantFinding(t, &d, "peer", ndhealth.Hint, "fe80::a is an address of this machine", "name an address of another machine")
	d = doctor(t, pair.A, "nd0", "--peer", "fd99::2")
	wantFinding(t, &d, "peer", ndhealth.Problem, "fd99::2 was not asked", "ip address add ADDRESS/PREFIX dev nd0")
}

// onlyLinkLocal removes the address that the kernel made, because it is not usable at once.
func onlyLinkLocal(t *testing.T, ns *netlab.Namespace, keep netip.Prefix) {
	t.Helper()
	must(t, ns.Do(func() error {
		link, err := netlink.LinkByName("nd0")
		if err != nil {
			return err
		}
		all, err := netlink.AddrList(link, netlink.FAMILY_V6)
		for i := range all {
			if all[i].IPNet.String() != keep.String() {
				err = errors.Join(err, netlink.AddrDel(link, &all[i]))
			}
		}
		return err
	}))
}
