package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

var must = testhelp.Must

// runAgain is an environment variable that makes the test binary run as ndinfo.
const runAgain = "NDINFO_TEST_RUN"

// holdAdapter is an environment variable that makes the test binary hold an adapter on AF_XDP, at the address in it, until it is killed.
const holdAdapter = "NDINFO_TEST_HOLD"

// sandboxed is an environment variable with the restrictions for netlabtest.Confine.
const sandboxed = "NDINFO_TEST_SANDBOX"

func TestMain(m *testing.M) {
	if address := os.Getenv(holdAdapter); address != "" {
		_, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(address), Datapath: nd.DatapathGeneric})
		fmt.Println("open:", err)
		select {}
	}
	if words := os.Getenv(sandboxed); words != "" {
		if err := netlabtest.Confine(strings.Fields(words)); err != nil {
			panic(err)
		}
	}
	if os.Getenv(runAgain) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// doctor runs the command inside a namespace, and checks that its exit status agrees with its report.
func doctor(t *testing.T, ns *netlab.Namespace, args ...string) diagnosis {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"doctor", "--json"}, args...))
	root.SetOut(&out)
	err := ns.Do(func() error { return root.ExecuteContext(t.Context()) })
	return diagnosed(t, out.Bytes(), err, errors.Is(err, errUnfit))
}

func diagnosed(t *testing.T, out []byte, err error, unfit bool) (d diagnosis) {
	t.Helper()
	if failed := json.Unmarshal(out, &d); failed != nil {
		t.Fatalf("%v; %v\n%s", err, failed, out)
	}
	if unfit == d.Works || err != nil && !unfit {
		t.Errorf("it works: %v, and the command ended with %v", d.Works, err)
	}
	return d
}

// doctorAsNobody runs the command in a separate process, as a user without privileges.
func doctorAsNobody(t *testing.T, ns *netlab.Namespace, args ...string) diagnosis {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"doctor", "--json"}, args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), runAgain+"=1"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	must(t, ns.StartProcess(cmd))
	err := cmd.Wait()
	var exit *exec.ExitError
	unfit := errors.As(err, &exit) && exit.ExitCode() == 1
	if said.Len() > 0 {
		t.Errorf("on standard error: %s", &said)
	}
	return diagnosed(t, out.Bytes(), err, unfit)
}

// wantFinding checks severity, text and remedy of a finding in the only report.
func wantFinding(t *testing.T, d *diagnosis, check string, severity ndhealth.Severity, found, remedy string) {
	t.Helper()
	for _, f := range d.Reports[0].Findings {
		if f.Check != check {
			continue
		}
		if f.Severity != severity || !strings.Contains(f.Found+" "+f.Why, found) || !strings.Contains(f.Remedy, remedy) {
			t.Errorf("%s: %+v\nwant %s that says %q and %q", check, f, severity, found, remedy)
		}
		if f.Severity != ndhealth.OK && (f.Why == "" || f.Remedy == "") {
			t.Errorf("%s says neither why nor what to do: %+v", check, f)
		}
		return
	}
	t.Errorf("no finding about %s in %+v", check, d.Reports[0])
}

func TestDoctorFindsNothing(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := doctor(t, pair.A, "--selftest", "--duration", "50ms")
	for _, f := range d.Reports[0].Findings {
		if f.Severity != ndhealth.OK {
			t.Errorf("%+v", f)
		}
	}
	if r := d.Reports[0]; len(d.Reports) != 1 || r.Interface != "nd0" || r.Address != "10.99.0.1" || r.Datapath != "tcx" {
		t.Errorf("%+v", r)
	}
	if s := d.SelfTest; s == nil || !s.Works || s.Bytes < chunk || s.Datapath != "tcx" || !strings.Contains(s.Said, "veth pair") {
		t.Errorf("self test: %+v", d.SelfTest)
	}
}

// Without privileges plain sockets are used: ND works, and the self test says over which datapath it ran.
func TestDoctorAsOrdinaryUser(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	d := doctorAsNobody(t, pair.A, "--selftest", "--duration", "50ms")
	wantFinding(t, &d, "capabilities", ndhealth.Hint, "CAP_NET_RAW", "setcap")
	if r := d.Reports[0]; r.Datapath != "udp" || !strings.Contains(r.Reason, "which this process lacks") {
		t.Errorf("%+v", r)
	}
	if s := d.SelfTest; s == nil || !s.Works || s.Datapath != "udp" || !strings.Contains(s.Said, "loopback") {
		t.Errorf("self test: %+v", d.SelfTest)
	}
}

// TestDoctorInUserNamespace: the capabilities in such a namespace do not count for AF_XDP, and doctor does not send the user for
// capabilities.
func TestDoctorInUserNamespace(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	examine := func(script string, as int) diagnosis {
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script, self)
		cmd.Env, cmd.Dir, cmd.Stdout = append(os.Environ(), runAgain+"=1"), "/", &out
		user := []syscall.SysProcIDMap{{ContainerID: as, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, UidMappings: user, GidMappings: user}
		err := cmd.Run()
		return diagnosed(t, out.Bytes(), err, err != nil)
	}
	const pair = `ip link add nd0 type veth peer name nd1 && ip address add 192.0.2.1/24 dev nd0 && ip link set nd0 up && ip link set nd1 up`
	d := examine(pair+` && exec "$0" doctor --json nd0`, 0)
	wantFinding(t, &d, "capabilities", ndhealth.Hint, "user namespace", "broker")
	wantFinding(t, &d, "kernel", ndhealth.OK, "has what AF_XDP needs", "")
	if d.Reports[0].Datapath != "udp" {
		t.Errorf("%+v", d.Reports[0])
	}
	d = examine(`exec "$0" doctor --json --datapath generic lo`, 1000) // a user who is not root there sees only lo
	wantFinding(t, &d, "capabilities", ndhealth.Problem, "user namespace", "broker")
}

func TestDoctorTable(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1000})
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"doctor", "nd0"})
	root.SetOut(&out)
	if err := pair.A.Do(func() error { return root.ExecuteContext(t.Context()) }); !errors.Is(err, errUnfit) {
		t.Errorf("ended with %v", err)
	}
	for _, want := range []string{"nd0 10.99.0.1, datapath tcx", "problem", "why: ", "do: ip link set nd0 mtu 1500", "ND cannot run here"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("colours where there is no terminal")
	}
}

func TestListAdapters(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 9000, Queues: 2})
	must(t, pair.A.Do(func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "resting"}}) // down, like all new interfaces
	}))
	var out, table bytes.Buffer
	for _, c := range []struct {
		out  *bytes.Buffer
		args []string
	}{{&out, []string{"--json"}}, {&table, []string{}}} {
		root := newRoot()
		root.SetArgs(c.args)
		root.SetOut(c.out)
		must(t, pair.A.Do(func() error { return root.ExecuteContext(t.Context()) }))
	}
	var all listing
	must(t, json.Unmarshal(out.Bytes(), &all))
	if len(all.Down) != 1 || all.Down[0].Name != "resting" || all.Down[0].State != "down" {
		t.Errorf("down are %+v", all.Down)
	}
	list := all.Adapters
	a := list[0]
	if a.Address != pair.AddrA.Addr() || a.Interface != "nd0" || a.Driver != "veth" || a.RxQueues != 2 || a.TxQueues != 2 || a.MTU != 9000 ||
		a.Datapath.String() != "generic" || !strings.Contains(a.Reason, "veth") || a.Limits.MaxReceiveQueueDepth == 0 || a.Limits.AdapterID == 0 {
		t.Errorf("%+v", a)
	}
	if last := list[len(list)-1]; last.Datapath.String() != "udp" || last.Interface != "lo" {
		t.Errorf("loopback: %+v", last)
	}
	for _, want := range []string{"10.99.0.1", "veth", "2/2", "9000", "generic", "16384", "down: resting"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
}

// TestListsWhoHasAnAdapter: a process with an open adapter is listed with the kernel's facts about its sockets.
func TestListsWhoHasAnAdapter(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	var a *nd.Adapter
	must(t, pair.A.Do(func() (err error) {
		a, err = nd.OpenAdapter(nd.AdapterConfig{Address: pair.AddrA.Addr(), Datapath: nd.DatapathNative})
		return err
	}))
	defer a.Close()
	other := netlabtest.Pair(t, netlab.PairConfig{}) // another namespace with the same address, like another machine
	must(t, other.A.Do(func() error {
		b, err := nd.OpenAdapter(nd.AdapterConfig{Address: pair.AddrA.Addr(), Datapath: nd.DatapathUDP})
		if err == nil {
			t.Cleanup(func() { must(t, b.Close()) })
		}
		return err
	}))
	list := func(args ...string) string {
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(&out)
		must(t, pair.A.Do(func() error { return root.ExecuteContext(t.Context()) }))
		return out.String()
	}
	var all listing
	must(t, json.Unmarshal([]byte(list("--json")), &all))
	if all.Down == nil {
		t.Error("no interface that is down is null")
	}
	adapters := all.Adapters
	by := adapters[0].OpenBy
	if len(by) != 1 || by[0].PID != os.Getpid() || by[0].Datapath != "native" || by[0].ZeroCopy || !strings.Contains(by[0].Copying, "refused zero-copy") {
		t.Errorf("%+v", by)
	}
	if a := adapters[0]; a.Datapath != nd.DatapathRing || !strings.Contains(a.Reason, "another adapter of this machine has UDP port 14791") {
		t.Errorf("one more adapter is said to get %+v", a)
	}
	if table := list(); !strings.Contains(table, "open by") || !strings.Contains(table, "copied: the driver refused zero-copy") {
		t.Errorf("%s", table)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{
		{"doctor", "nosuchinterface"},
		{"doctor", "lo", "--datapath", "carrier-pigeon"},
		{"doctor", "lo", "--peer", "there"},
		{"doctor", "--peer", "192.0.2.7"},
		{"eth0"},
	} {
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(&bytes.Buffer{})
		if err := root.ExecuteContext(t.Context()); err == nil || errors.Is(err, errUnfit) {
			t.Errorf("%q ended with %v", args, err)
		}
	}
}

// TestHostileNames: the name of a process or an interface in a finding cannot control the terminal.
func TestHostileNames(t *testing.T) {
	const name = "\x1b[2J\u009b2J\nx"
	var out bytes.Buffer
	renderDiagnosis(&out, &diagnosis{Works: true, Reports: []ndhealth.Report{{
		Interface: name, Datapath: "generic", Reason: name,
		Findings: []ndhealth.Finding{{Check: "xdp", Severity: ndhealth.Hint, Found: name, Why: name, Remedy: name}},
	}}}, 0)
	for line := range strings.Lines(out.String()) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), unicode.IsControl) || strings.HasPrefix(line, "x") {
			t.Errorf("%q", line)
		}
	}
}
