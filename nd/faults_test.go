package nd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// Roles of this test binary when it starts itself, and the parameters of these roles.
const (
	childRole = "NDXDP_TEST_CHILD"
	childDrop = "NDXDP_TEST_DROP" // the numbers of capabilities to drop
	childAddr = "NDXDP_TEST_ADDR"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childRole) {
	case "":
		netlabtest.Overlap()
		code := m.Run()
		if err := closeCommonRig(); err != nil {
			fmt.Println(err)
			code = max(code, 1)
		}
		// All adapters are closed, so no goroutine of an adapter, a call or a subscription may be left.
		os.Exit(testhelp.ExitStatus(code))
	case "drop":
		dropCapabilities()
	case "open":
		openOnce()
	case "starve":
		starve()
	case "serve":
		serveUntilKilled()
	}
	os.Exit(2)
}

// dropCapabilities executes this program again without the listed capabilities. Root gets back only those of the bounding set.
func dropCapabilities() {
	runtime.LockOSThread()
	for s := range strings.FieldsSeq(os.Getenv(childDrop)) {
		capability, err := strconv.Atoi(s)
		if err == nil {
			err = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0)
		}
		if err != nil {
			fmt.Println("drop capability", s, err)
			os.Exit(1)
		}
	}
	env := []string{childRole + "=open", childAddr + "=" + os.Getenv(childAddr)}
	fmt.Println(unix.Exec("/proc/self/exe", os.Args, env)) // Exec returns only with an error
	os.Exit(1)
}

func openOnce() {
	a, err := OpenAdapter(AdapterConfig{Address: netip.MustParseAddr(os.Getenv(childAddr)), Datapath: DatapathGeneric})
	if err != nil {
		fmt.Printf("%t %s", errors.Is(err, ErrDeviceNotReady), err)
		os.Exit(0)
	}
	fmt.Print("opened ", a.Close())
	os.Exit(0)
}

// starve opens an adapter while no file descriptor is free, and prints the error.
func starve() {
	c, err := net.ListenUDP("udp4", nil) // afterwards the Go runtime's own descriptors exist
	if err == nil {
		defer c.Close()
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3})
	}
	if err == nil {
		_, err = OpenAdapter(AdapterConfig{Address: loopback[0], Datapath: DatapathUDP})
	}
	fmt.Printf("%t %v", errors.Is(err, ErrInsufficientResources), err)
	os.Exit(0)
}

func TestOpenAdapterWithoutDescriptors(t *testing.T) {
	t.Parallel()
	out, err := child("starve").Output()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), "too many open files") {
		t.Errorf("%v: %s", err, out)
	}
}

func child(role string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.WaitDelay = patience
	cmd.Env = append(append(os.Environ(), childRole+"="+role), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// reported is the text of an error in another process.
type reported string

func (r reported) Error() string { return string(r) }

func TestOpenAdapterNamesMissingCapabilities(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	var all strings.Builder
	for c := range unix.CAP_LAST_CAP + 1 {
		fmt.Fprint(&all, c, " ")
	}
	for _, c := range []struct {
		name, drop string
		say        []string
	}{
		{"net raw", fmt.Sprint(unix.CAP_NET_RAW), []string{"CAP_NET_RAW"}},
		{"net admin", fmt.Sprint(unix.CAP_NET_ADMIN), []string{"CAP_NET_ADMIN"}},
		{"bpf", fmt.Sprint(unix.CAP_BPF, " ", unix.CAP_SYS_ADMIN), []string{"CAP_BPF"}},
		{"all", all.String(), []string{"CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := child("drop", childDrop+"="+c.drop, childAddr+"="+pair.AddrA.Addr().String())
			var out strings.Builder
			cmd.Stdout = &out
			must(t, pair.A.StartProcess(cmd))
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // the process has ended, unless the test failed
			must(t, finish(t, "child", start(cmd.Wait)))
			text, notReady := strings.CutPrefix(out.String(), "true ")
			if !notReady {
				t.Fatalf("%q: not ErrDeviceNotReady", out.String())
			}
			wantOneLine(t, reported(text), append(c.say, "root", pair.AddrA.Addr().String())...)
		})
	}
}

// Each fault of the machine gives a one-line error: what was attempted, on what, why it failed and what to do.
func TestOpenAdapterFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		mtu   int
		spoil func(t *testing.T, pair *netlab.Pair)
		cfg   AdapterConfig
		want  Status
		say   []string
	}{
		{name: "no address", cfg: AdapterConfig{}, want: ErrInvalidAddress, say: []string{"open adapter", "needs one address of an interface"}},
		{name: "unspecified", cfg: AdapterConfig{Address: netip.IPv4Unspecified()}, want: ErrInvalidAddress, say: []string{"0.0.0.0", "needs one address of an interface", "ip address"}},
		{
			name: "address of another machine", cfg: AdapterConfig{Address: netlab.DefaultAddrB.Addr()}, want: ErrInvalidAddress,
			say: []string{"10.99.0.2", "no interface of this machine", "ip address"},
		},
		{
			name: "unknown datapath", cfg: AdapterConfig{Address: netlab.DefaultAddrA.Addr(), Datapath: 9}, want: ErrInvalidParameter,
			say: []string{"10.99.0.1", "datapath"},
		},
		{
			name: "loopback", cfg: AdapterConfig{Address: netip.MustParseAddr("127.0.0.1"), Datapath: DatapathGeneric}, want: ErrDeviceNotReady,
			say: []string{"127.0.0.1", "lo", "not an Ethernet interface"},
		},
		{
			name: "interface down", cfg: AdapterConfig{Address: netlab.DefaultAddrA.Addr(), Datapath: DatapathGeneric}, want: ErrDeviceNotReady,
			spoil: func(t *testing.T, pair *netlab.Pair) { (&rig{pair: pair}).setLink(t, pair.A, false) },
			say:   []string{"10.99.0.1", "nd0", "down", "ip link set nd0 up"},
		},
		{
			name: "MTU too small", mtu: 1000, cfg: AdapterConfig{Address: netlab.DefaultAddrA.Addr()}, want: ErrDeviceNotReady,
			say: []string{"10.99.0.1", "nd0", "MTU 1000", "1228"},
		},
		{
			name: "port in use", cfg: AdapterConfig{Address: netlab.DefaultAddrA.Addr(), UDPPort: 15000}, want: ErrDeviceNotReady,
			spoil: func(t *testing.T, pair *netlab.Pair) {
				must(t, pair.A.Do(func() error {
					c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(pair.AddrA.Addr(), 15000)))
					if err == nil {
						t.Cleanup(func() { c.Close() })
					}
					return err
				}))
			},
			say: []string{"15000", "10.99.0.1", "in use", "ss -ulpn"},
		},
		{
			name: "foreign program", cfg: AdapterConfig{Address: netlab.DefaultAddrA.Addr(), Datapath: DatapathGeneric}, want: ErrDeviceNotReady,
			spoil: attachForeign,
			say:   []string{"nd0", "another XDP program", "\"foreign\"", fmt.Sprint("process ", os.Getpid()), fmt.Sprint("kill ", os.Getpid())},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			pair := netlabtest.Pair(t, netlab.PairConfig{MTU: c.mtu})
			if c.spoil != nil {
				c.spoil(t, pair)
			}
			a, err := tryOpen(pair.A, c.cfg)
			if err == nil {
				must(t, a.Close())
			}
			wantStatus(t, "open", err, c.want)
			wantOneLine(t, err, c.say...)
		})
	}
}

// attachForeign attaches another program's XDP program to the interface of A.
func attachForeign(t *testing.T, pair *netlab.Pair) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "foreign", Type: ebpf.XDP, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	must(t, err)
	t.Cleanup(func() { p.Close() })
	must(t, pair.A.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: pair.IfindexA, Flags: link.XDPGenericMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}))
}

func TestOpenAdapterTwice(t *testing.T) {
	for dp, held := range map[Datapath][]string{DatapathGeneric: {"nd0", "it is ours", "one process per interface"}, DatapathTCX: {"held by another AF_XDP socket"}} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			openTwice(t, dp, held)
		})
	}
}

// openTwice opens adapters beside one of a datapath. held lists the errors for adapters with another well-known port.
func openTwice(t *testing.T, dp Datapath, held []string) {
	r := newRig(t, 1500, dp)
	for port, why := range map[uint16]string{0: "another adapter of this machine has UDP port 14791", 15001: "held by another AF_XDP socket"} {
		a := openIn(t, r.pair.A, AdapterConfig{Address: r.addr[0], UDPPort: port})
		if info := a.Datapath(); info.Datapath != DatapathRing || !strings.Contains(info.Reason, why) {
			t.Errorf("auto, port %d: %+v", port, info)
		}
		must(t, a.Close())
	}
	_, err := tryOpen(r.pair.A, AdapterConfig{Address: r.addr[0], Datapath: dp})
	wantStatus(t, "same port", err, ErrDeviceNotReady)
	wantOneLine(t, err, "14791", "another adapter of this machine")
	_, err = tryOpen(r.pair.A, AdapterConfig{Address: r.addr[0], UDPPort: 15001, Datapath: dp})
	wantStatus(t, "another port", err, ErrDeviceNotReady)
	wantOneLine(t, err, held...)
	must(t, r.a.Close())
	again := openIn(t, r.pair.A, AdapterConfig{Address: r.addr[0], Datapath: dp}) // the failed attempts left nothing behind
	e, s := newEnd(t, again, 64), newEnd(t, r.b, 64)
	r.join(t, e, s)
}

func TestFailedOpenLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for range 3 {
		_, err := tryOpen(pair.A, AdapterConfig{Address: netlab.DefaultAddrB.Addr()})
		wantStatus(t, "open", err, ErrInvalidAddress)
	}
	must(t, pair.A.Do(func() error {
		l, err := netlink.LinkByIndex(pair.IfindexA)
		if err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached {
			t.Error("a program is attached")
		}
		return err
	}))
	openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr()})
}
