package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// need skips a test if a command is missing.
func need(t *testing.T, command, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		t.Skipf("%s is missing: apt-get install %s", command, pkg)
	}
}

// The process that has the interface ends by the command that doctor names, and then AF_XDP can be opened.
func TestRemedyKill(t *testing.T) {
	t.Parallel()
	need(t, "ss", "iproute2")
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), holdAdapter+"="+pair.AddrA.Addr().String())
	said, err := cmd.StdoutPipe()
	must(t, err)
	must(t, pair.A.StartProcess(cmd))
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "open: <nil>\n" {
		t.Errorf("%q, %v", line, err)
	}
	d := doctor(t, pair.A, "nd0", "--datapath", "generic")
	command := remedy(t, &d, "xdp program")
	if command != fmt.Sprintf("kill %d", cmd.Process.Pid) {
		t.Fatalf("the remedy is %q, and the process %d", command, cmd.Process.Pid)
	}
	_, look, _ := strings.Cut(d.Reports[0].Findings[index(&d, "udp port")].Remedy, "(")
	wantAnswer(t, pair.A, strings.TrimSuffix(look, ")"), fmt.Sprintf("pid=%d", cmd.Process.Pid))
	shell(t, pair.A, command)
	_ = cmd.Wait() // it was killed
	d = doctor(t, pair.A, "nd0", "--datapath", "generic")
	wantOK(t, &d, "xdp program")
	wantOK(t, &d, "udp port")
}

// An interface without an address, and an interface without a carrier.
func TestRemedyAddressAndCarrier(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	shell(t, pair.A, "ip address flush dev nd0")
	d := doctor(t, pair.A, "nd0")
	shell(t, pair.A, strings.Replace(remedy(t, &d, "interface"), "ADDRESS/PREFIX", pair.AddrA.String(), 1))
	shell(t, pair.B, "ip link set nd0 down")
	d = doctor(t, pair.A, "nd0")
	_, command, _ := strings.Cut(d.Reports[0].Findings[index(&d, "interface")].Remedy, "(")
	shell(t, pair.B, strings.Replace(strings.TrimSuffix(command, ")"), "PEER", "nd0", 1))
	d = doctor(t, pair.A, "nd0")
	wantOK(t, &d, "interface")
}

// index returns the position of a check in the only report.
func index(d *diagnosis, check string) int {
	for i, f := range d.Reports[0].Findings {
		if f.Check == check {
			return i
		}
	}
	return 0
}

// Fewer transmit queues than receive queues, and more queues than processors, on a driver without combined channels.
func TestRemedyQueues(t *testing.T) {
	t.Parallel()
	need(t, "ethtool", "ethtool")
	for name, ns := range map[string]*netlab.Namespace{"q0": queued(t, 4, 1), "nd0": netlabtest.Pair(t, netlab.PairConfig{Queues: 64}).A} {
		d := doctor(t, ns, name)
		shell(t, ns, remedy(t, &d, "queues"))
		d = doctor(t, ns, name)
		wantOK(t, &d, "queues")
	}
}

// The command removes a shaping qdisc. Over AF_XDP, which bypasses the qdisc, the remedy is another datapath.
func TestRemedyQdisc(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	shell(t, pair.A, "tc qdisc add dev nd0 root tbf rate 1gbit burst 1mb latency 10ms")
	d := doctor(t, pair.A, "nd0")
	if said := remedy(t, &d, "qdisc"); !strings.HasPrefix(said, "use --datapath udp") {
		t.Errorf("over AF_XDP: %q", said)
	}
	d = doctor(t, pair.A, "nd0", "--datapath", "udp")
	shell(t, pair.A, remedy(t, &d, "qdisc"))
	d = doctor(t, pair.A, "nd0", "--datapath", "udp")
	wantOK(t, &d, "qdisc")
}

// Settings that a program left behind are reset. They are visible if /sys is of the namespace.
func TestRemedyNAPI(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	within := func(first string) diagnosis {
		var out bytes.Buffer
		cmd := exec.Command("unshare", "-m", "sh", "-ec", "mount -t sysfs sysfs /sys\n"+first+"\n"+`exec "$0" doctor --json nd0`, "/proc/self/exe")
		self, err := os.Executable()
		must(t, err)
		cmd.Args[len(cmd.Args)-1] = self
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), runAgain+"=1"), &out, &out
		must(t, pair.A.StartProcess(cmd))
		err = cmd.Wait()
		return diagnosed(t, out.Bytes(), err, err != nil)
	}
	d := within("cd /sys/class/net/nd0; echo 2 > napi_defer_hard_irqs; echo 200000 > gro_flush_timeout")
	d = within(remedy(t, &d, "napi") + " > /dev/null")
	wantOK(t, &d, "napi")
	if d.Reports[0].Findings[index(&d, "napi")].Check != "napi" {
		t.Error("the knobs were not looked at")
	}
}

// A user without a directory for the key gets one by logging in, which sets XDG_RUNTIME_DIR. The permissions of a key that other users
// may read are repaired.
func TestRemedyResetKey(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	dir := filepath.Join("/var/tmp", fmt.Sprintf("ndinfo-key-%d", os.Getpid())) // not below this user's own directory
	must(t, os.Mkdir(dir, 0o700))
	defer os.RemoveAll(dir)
	must(t, os.Chown(dir, 65534, 65534))
	asNobody := func(runtimeDir string) diagnosis {
		var out bytes.Buffer
		cmd := exec.Command("/proc/self/exe", "doctor", "--json", "nd0")
		cmd.Env, cmd.Dir, cmd.Stdout = append(os.Environ(), runAgain+"=1", "XDG_RUNTIME_DIR="+runtimeDir), "/", &out
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		must(t, pair.A.StartProcess(cmd))
		err := cmd.Wait()
		return diagnosed(t, out.Bytes(), err, err != nil)
	}
	d := asNobody("")
	if said := remedy(t, &d, "reset key"); !strings.HasPrefix(said, "log in so that XDG_RUNTIME_DIR is set") {
		t.Errorf("%q", said)
	}
	d = asNobody(dir)
	wantOK(t, &d, "reset key")
	must(t, os.Mkdir(filepath.Join(dir, "ndxdp"), 0o700))
	must(t, os.Chown(filepath.Join(dir, "ndxdp"), 65534, 65534))
	must(t, os.Chmod(filepath.Join(dir, "ndxdp"), 0o777))
	d = asNobody(dir)
	remedy(t, &d, "reset key")
	must(t, os.Chmod(filepath.Join(dir, "ndxdp"), 0o700))
	d = asNobody(dir)
	wantOK(t, &d, "reset key")
}

// AF_XDP on an interface without Ethernet: the datapath that doctor names works.
func TestRemedyNoEthernet(t *testing.T) {
	t.Parallel()
	ns := netlabtest.Pair(t, netlab.PairConfig{}).A
	shell(t, ns, "ip link set lo up")
	d := doctor(t, ns, "lo", "--datapath", "generic")
	if said := remedy(t, &d, "driver"); said != "use --datapath udp" {
		t.Errorf("%q", said)
	}
	if d = doctor(t, ns, "lo", "--datapath", "udp"); !d.Works {
		t.Errorf("%+v", d)
	}
}

// A program that is no adapter has the UDP port: the command names this program, and another port works.
func TestRemedyPort(t *testing.T) {
	t.Parallel()
	need(t, "ss", "iproute2")
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	must(t, pair.A.Do(func() error {
		s, err := net.ListenUDP("udp", &net.UDPAddr{Port: nd.DefaultUDPPort})
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return err
	}))
	d := doctor(t, pair.A, "nd0")
	said := d.Reports[0].Findings[index(&d, "udp port")].Remedy
	_, command, _ := strings.Cut(said, "(")
	command, _, _ = strings.Cut(command, ")")
	wantAnswer(t, pair.A, command, "pid="+strconv.Itoa(os.Getpid()))
	_, port, _ := strings.Cut(said, "--udp-port ")
	if d = doctor(t, pair.A, "nd0", "--udp-port", port); !d.Works {
		t.Errorf("--udp-port %s: %+v", port, d)
	}
}

// Commands that only show facts show the cause.
func TestRemedyLooks(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := doctor(t, pair.A, "nd0", "--peer", "10.99.0.77")
	_, command, _ := strings.Cut(d.Reports[0].Findings[index(&d, "peer")].Remedy, ": ")
	wantAnswer(t, pair.A, command, "10.99.0.77")
	d = doctor(t, pair.A, "nd0", "--peer", "203.0.113.1")
	wantAnswer(t, pair.A, d.Reports[0].Findings[index(&d, "peer")].Remedy, "No route to host")
}

// wantAnswer runs a command that shows facts, in a namespace, and checks its output. Its exit status depends on what it found.
func wantAnswer(t *testing.T, ns *netlab.Namespace, command, want string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("sh", "-c", command)
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, ns.StartProcess(cmd))
	if err := cmd.Wait(); !strings.Contains(said.String(), want) {
		t.Errorf("%s: %v, without %q\n%s", command, err, want, &said)
	}
}
