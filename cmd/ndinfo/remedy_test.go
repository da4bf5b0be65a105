package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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

// Each test here carries out a remedy in a shell, and checks that it helps.

// remedy returns the command at the beginning of a finding's remedy.
func remedy(t *testing.T, d *diagnosis, check string) string {
	t.Helper()
	for _, f := range d.Reports[0].Findings {
		if f.Check == check && f.Severity != ndhealth.OK {
			command, _, _ := strings.Cut(f.Remedy, ", ")
			return command
		}
	}
	t.Fatalf("nothing is wrong with %s: %+v", check, d.Reports[0])
	return ""
}

// shell runs a command in a namespace.
func shell(t *testing.T, ns *netlab.Namespace, command string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("sh", "-c", command)
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, ns.StartProcess(cmd))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", command, err, &said)
	}
}

func wantOK(t *testing.T, d *diagnosis, check string) {
	t.Helper()
	for _, f := range d.Reports[0].Findings {
		if f.Check == check && f.Severity != ndhealth.OK {
			t.Errorf("the remedy did not help: %+v", f)
		}
	}
}

// An XDP program of another program, however it was attached and whoever holds it, is removed by the command that doctor names. The error
// of an open names the same command.
func TestRemedyForeignXDPProgram(t *testing.T) {
	netlabtest.NeedRoot(t)
	t.Parallel()
	foreign, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "foreign", Type: ebpf.XDP, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	must(t, err)
	defer foreign.Close() // this process holds the program all the time
	pins := t.TempDir()
	must(t, unix.Mount("bpf", pins, "bpf", 0, ""))
	defer func() { must(t, unix.Unmount(pins, unix.MNT_DETACH)) }()
	for _, row := range []struct {
		name   string
		attach func(index int) error
	}{
		// The detached link that this test leaves behind must not be mistaken for a link of the interfaces below.
		{"pinned link", func(index int) error {
			l, err := link.AttachXDP(link.XDPOptions{Program: foreign, Interface: index, Flags: link.XDPGenericMode})
			if err != nil {
				return err
			}
			defer l.Close()
			return l.Pin(filepath.Join(pins, "link"))
		}},
		{"without a link, generic", func(index int) error {
			return netlink.LinkSetXdpFdWithFlags(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}, foreign.FD(), unix.XDP_FLAGS_SKB_MODE)
		}},
		{"without a link, native", func(index int) error {
			return netlink.LinkSetXdpFdWithFlags(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}, foreign.FD(), unix.XDP_FLAGS_DRV_MODE)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			pair := netlabtest.Pair(t, netlab.PairConfig{})
			must(t, pair.A.Do(func() error { return row.attach(pair.IfindexA) }))
			d := doctor(t, pair.A, "nd0")
			command := remedy(t, &d, "xdp program")
			_, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr(), Datapath: nd.DatapathGeneric})
			if err == nil || !strings.Contains(err.Error(), command) {
				t.Errorf("opening says %v, and doctor %q", err, command)
			}
			shell(t, pair.A, command)
			d = doctor(t, pair.A, "nd0")
			wantOK(t, &d, "xdp program")
			if !d.Works {
				t.Errorf("%+v", d.Reports[0])
			}
		})
	}
}

// Beside an adapter on AF_XDP, doctor says what an open gets. Its advice for AF_XDP is a set-up that opens: datapath auto, on the same
// UDP port.
func TestRemedyOwnProgram(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	_, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr(), Datapath: nd.DatapathGeneric})
	must(t, err)
	d := doctor(t, pair.A, "nd0")
	wantFinding(t, &d, "xdp program", ndhealth.Hint, "one process at a time uses AF_XDP", "kill ")
	wantFinding(t, &d, "udp port", ndhealth.Hint, "that of another adapter", "none is needed")
	b, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr()})
	must(t, err)
	if r, got := d.Reports[0], b.Datapath(); !d.Works || r.Datapath != "ring" || got.Datapath != nd.DatapathRing || !strings.HasPrefix(got.Reason, r.Reason) {
		t.Errorf("doctor says of auto %+v, and opening got %+v", r, got)
	}
	d = doctor(t, pair.A, "nd0", "--datapath", "generic")
	wantFinding(t, &d, "xdp program", ndhealth.Problem, "one process at a time uses AF_XDP", "else use --datapath auto")
	wantFinding(t, &d, "udp port", ndhealth.Problem, "that of another adapter", "--datapath auto")
}

// Firewall rules that drop the UDP port are named, and the advice of doctor makes the firewall pass it.
func TestRemedyFirewall(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is missing: apt-get install nftables")
	}
	for name, rule := range map[string]string{
		"rule":   "nft add rule inet f in udp dport 14791 drop",
		"policy": "nft add chain inet f in '{ policy drop; }'",
		"map":    "nft add rule inet f in udp dport vmap '{ 53 : accept, 14791 : drop }'",
		"others": "nft add rule inet f in udp dport != 53 drop",
	} {
		t.Run(name, func(t *testing.T) {
			pair := netlabtest.Pair(t, netlab.PairConfig{})
			shell(t, pair.A, "nft add table inet f && nft add chain inet f in '{ type filter hook input priority 0; }' && "+rule)
			d := doctor(t, pair.A, "nd0", "--datapath", "udp")
			shell(t, pair.A, remedy(t, &d, "firewall"))
			d = doctor(t, pair.A, "nd0", "--datapath", "udp")
			wantOK(t, &d, "firewall")
		})
	}
}

// If there are further adapters, a firewall that passes the well-known port must pass their ports too.
func TestRemedyFirewallBesideAnAdapter(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is missing: apt-get install nftables")
	}
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	shell(t, pair.A, "nft add table inet f && nft add chain inet f in '{ type filter hook input priority 0; policy drop; }' && nft add rule inet f in udp dport 14791 accept")
	d := doctor(t, pair.A, "nd0", "--datapath", "udp")
	wantOK(t, &d, "firewall")
	_, err := openIn(t, pair.A, nd.AdapterConfig{Address: pair.AddrA.Addr(), Datapath: nd.DatapathUDP})
	must(t, err)
	d = doctor(t, pair.A, "nd0", "--datapath", "udp")
	wantFinding(t, &d, "firewall", ndhealth.Hint, "none names UDP port 49152", "49152-65535")
	shell(t, pair.A, remedy(t, &d, "firewall"))
	d = doctor(t, pair.A, "nd0", "--datapath", "udp")
	wantOK(t, &d, "firewall")
}

// Doctor distinguishes a machine that works from a peer that is silent.
func TestSilentPeerIsNotThisMachine(t *testing.T) {
	for works, findings := range map[string][]ndhealth.Finding{
		"ND can run on this machine; the peer does not answer": {{Check: "peer", Severity: ndhealth.Problem}},
		"ND cannot run here": {{Check: "peer", Severity: ndhealth.Problem}, {Check: "mtu", Severity: ndhealth.Problem}},
	} {
		var out bytes.Buffer
		renderDiagnosis(&out, &diagnosis{Reports: []ndhealth.Report{{Interface: "eth0", Findings: findings}}}, 0)
		if !strings.Contains(out.String(), works) {
			t.Errorf("it does not say %q:\n%s", works, &out)
		}
	}
}

// The capabilities are given to the program that opens adapters. Here this is a copy of this program, which then has them as an ordinary
// user.
func TestRemedyMissingCapability(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := doctorAsNobody(t, pair.A, "nd0", "--datapath", "generic")
	said := ""
	for _, f := range d.Reports[0].Findings {
		if f.Check == "capabilities" {
			said = f.Remedy
		}
	}
	_, command, ok := strings.Cut(said, "sudo ")
	command, _, _ = strings.Cut(command, ", of the program")
	if !ok || strings.Contains(command, os.Args[0]) {
		t.Fatalf("the remedy is %q", said)
	}
	dir := filepath.Join("/var/tmp", fmt.Sprintf("ndinfo-remedy-%d", os.Getpid())) // not below this user's own directory
	must(t, os.Mkdir(dir, 0o755))
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o755))
	program := filepath.Join(dir, "program")
	must(t, copyFile(program, "/proc/self/exe"))
	shell(t, pair.A, strings.Replace(command, "PROGRAM", program, 1))
	var out bytes.Buffer
	cmd := exec.Command(program, "doctor", "--json", "nd0", "--datapath", "generic")
	cmd.Env, cmd.Dir, cmd.Stdout = append(os.Environ(), runAgain+"=1"), "/", &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	must(t, pair.A.StartProcess(cmd))
	err := cmd.Wait()
	d = diagnosed(t, out.Bytes(), err, err != nil)
	wantOK(t, &d, "capabilities")
	wantOK(t, &d, "locked memory")
}

// copyFile makes an executable copy of a file.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// If an interface is down, or its MTU is too small, the advice of doctor repairs it.
func TestRemedyInterface(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1000})
	d := doctor(t, pair.A, "nd0")
	shell(t, pair.A, remedy(t, &d, "mtu"))
	shell(t, pair.A, "ip link set nd0 down")
	d = doctor(t, pair.A, "nd0")
	shell(t, pair.A, remedy(t, &d, "interface"))
	d = doctor(t, pair.A, "nd0")
	wantOK(t, &d, "interface")
	wantOK(t, &d, "mtu")
}
