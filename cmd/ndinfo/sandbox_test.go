package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// inSandbox runs the command in a namespace as a process with a sandbox's restrictions, and reads the JSON that it prints. The error is
// the command's exit error.
func inSandbox(t *testing.T, ns *netlab.Namespace, sandbox string, into any, args ...string) error {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append(args, "--json")...)
	cmd.Env, cmd.Dir = append(os.Environ(), runAgain+"=1", sandboxed+"="+sandbox), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	must(t, ns.StartProcess(cmd))
	ended := cmd.Wait()
	if err := json.Unmarshal(out.Bytes(), into); err != nil || said.Len() > 0 {
		t.Fatalf("%v: %v, %v\n%s%s", args, ended, err, &out, &said)
	}
	return ended
}

// TestWithoutNetlink: a process without netlink sockets sees all that is visible without them, and is told what could not be read.
func TestWithoutNetlink(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	var l listing
	must(t, inSandbox(t, pair.A, "netlink=EAFNOSUPPORT", &l))
	if !slices.ContainsFunc(l.Adapters, func(a ndhealth.Adapter) bool { return a.Address == pair.AddrA.Addr() && a.Carrier }) {
		t.Errorf("the adapter is not listed: %+v", l.Adapters)
	}
	if len(l.Unseen) != 1 || !strings.Contains(l.Unseen[0], "which interfaces are down was not looked at: ") || !strings.Contains(l.Unseen[0], "permit AF_NETLINK") {
		t.Errorf("not looked at: %q", l.Unseen)
	}
	must(t, pair.B.Do(func() error {
		link, err := netlink.LinkByName(pair.NameB)
		if err == nil {
			err = netlink.LinkSetDown(link)
		}
		return err
	}))
	testhelp.Eventually(t, "the kernel tells of the lost carrier", func() (lost bool) { // the kernel does so within a second
		must(t, pair.A.Do(func() error {
			link, err := netlink.LinkByName(pair.NameA)
			lost = err == nil && link.Attrs().RawFlags&unix.IFF_RUNNING == 0
			return err
		}))
		return lost
	})
	for _, args := range [][]string{{"doctor"}, {"doctor", pair.NameA}} {
		var d diagnosis
		if err := inSandbox(t, pair.A, "netlink=EAFNOSUPPORT", &d, append(args, "--datapath", "udp")...); err == nil {
			t.Errorf("%v: ND works without a carrier", args)
		}
		wantFinding(t, &d, "interface", ndhealth.Problem, "has no carrier", "ip link set PEER up")
		wantFinding(t, &d, "netlink", ndhealth.Hint, "were not examined", "permit AF_NETLINK")
		wantFinding(t, &d, "udp port", ndhealth.Hint, "netlink sockets are refused", "ss -ulpn")
		if whole := len(args) == 1; whole != (len(d.Unseen) == 1) {
			t.Errorf("%v: not looked at: %q", args, d.Unseen)
		}
	}
}

// TestDoctorOfLoopbackAsksForNothing: a privilege that would not help on an interface is not reported as missing.
func TestDoctorOfLoopbackAsksForNothing(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, sandbox := range []string{"nobody", "xdp=EAFNOSUPPORT", "bpf=EPERM"} {
		var d diagnosis
		must(t, inSandbox(t, pair.A, sandbox, &d, "doctor", "lo"))
		for _, f := range d.Reports[0].Findings {
			if f.Severity != ndhealth.OK && slices.Contains([]string{"kernel", "capabilities", "driver"}, f.Check) {
				t.Errorf("%s: %+v", sandbox, f)
			}
		}
	}
}

// TestDoctorForesees: what doctor says about a requested datapath agrees with what an open gets.
func TestDoctorForesees(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, c := range []struct{ sandbox, iface, datapath, check string }{
		{"nobody", pair.NameA, "ring", "capabilities"},
		{"nobody", pair.NameA, "generic", "capabilities"},
		{"bpf=EPERM", pair.NameA, "ring", "capabilities"},
		{"netlink=EPERM", pair.NameA, "ring", "netlink"},
		{"netlink=EPERM", pair.NameA, "tcx", "netlink"},
		{"timerfd=EPERM", "lo", "tcx", "driver"},
	} {
		var d diagnosis
		err := inSandbox(t, pair.A, c.sandbox, &d, "doctor", c.iface, "--datapath", c.datapath)
		at := slices.IndexFunc(d.Reports[0].Findings, func(f ndhealth.Finding) bool { return f.Check == c.check && f.Severity == ndhealth.Problem })
		if err == nil || at < 0 {
			t.Errorf("%s with %s: %v, %+v", c.sandbox, c.datapath, err, d.Reports[0])
		}
	}
}
