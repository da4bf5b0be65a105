package ndhealth

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// remedies has all remedies that doctor can give, as the judges write them. Each has the tests that apply it and check that it
// helps, or the reason why there is no test. A remedy that occurs twice in a judge is here once.
var remedies = []struct{ remedy, tests, reason string }{
	{
		`"permit AF_XDP where there is a sandbox (systemd: RestrictAddressFamilies; containers: seccomp); else boot Linux 6.6 or later with CONFIG_XDP_SOCKETS=y, or use --datapath udp"`,
		"TestSandboxes", "",
	},
	{`"mount /proc where it is missing; else boot Linux 6.6 or later with CONFIG_BPF_SYSCALL=y, or use --datapath udp"`, "", "another kernel"},
	{`"permit AF_NETLINK (systemd: RestrictAddressFamilies; containers: seccomp)"`, "TestWithoutNetlink TestSandboxes", ""},
	{`"boot Linux 6.6 or later for a larger one"`, "", "another kernel"},
	{`"run the program outside of the user namespace or container, or lease AF_XDP from a broker there (docs/OPERATING.md#brokers-and-containers)"`, "TestUnprivilegedNamespaces", ""},
	{`"run it as root, or: " + grant`, "TestRemedyMissingCapability", ""},
	{`"ulimit -l unlimited, or: " + grant`, "TestRemedyMissingCapability", ""},
	{`setQueues(f, max(f.cores, 1))`, "", "memory that does not suffice for the queues of a machine; the command is that of the next ones"},
	{`setQueues(f, f.cores)`, "TestRemedyQueues", ""},
	{`setQueues(f, max(tx, 1)) + ", or give the virtual machine no more queues than CPUs"`, "TestRemedyQueues", ""},
	{`"ip link set " + name + " up"`, "TestRemedyInterface", ""},
	{`"ip address add ADDRESS/PREFIX dev " + name`, "TestRemedyAddressAndCarrier", ""},
	{`"plug the cable in, or set the peer interface up (ip link set PEER up)"`, "TestRemedyAddressAndCarrier", ""},
	{`"use --datapath udp, or another interface"`, "TestRemedyNoEthernet", ""},
	{`"use --datapath auto"`, "TestPlanOfWhatIsAskedFor TestInterfaceWithLowerOnes", ""},
	{`"use --datapath generic or auto"`, "", "a driver without native XDP, which a namespace has none of"},
	{`fmt.Sprintf("ip link set %s mtu %d", name, max(least, 1500))`, "TestRemedyInterface", ""},
	{`fmt.Sprintf("ip link set %s mtu %d", name, plan.SingleBufferMTU)`, "", "a kernel without AF_XDP multi-buffer"},
	{`fmt.Sprintf("ip link set %s mtu %d, or use --datapath generic", name, plan.SingleBufferMTU)`, "", "a driver whose native XDP takes no packets of several pages"},
	{`fmt.Sprintf("ethtool -X %s equal %d", f.nic.Name, f.nic.RxQueues)`, "", "an indirection table, which veth has none of"},
	{`fmt.Sprintf("ethtool -G %s rx %d", f.nic.Name, min(r.rxMax, 4*fewDescriptors))`, "", "descriptor rings, which veth has none of"},
	{
		`fmt.Sprintf("sysctl -w net.core.wmem_max=%d net.core.rmem_max=%d, or grant CAP_NET_ADMIN", want, want)`, "TestBrokenTinySendBuffer",
		"the limits are those of the host, and not for a test to change: it has the right instead",
	},
	{`"use --datapath udp to obey it, or shape at the switch"`, "TestRemedyQdisc", ""},
	{`"tc qdisc del dev " + f.nic.Name + " root"`, "TestRemedyQdisc", ""},
	{`"echo 0 | tee " + knobs + "napi_defer_hard_irqs " + knobs + "gro_flush_timeout"`, "TestRemedyNAPI", ""},
	{`"boot with iommu=pt"`, "", "a machine with an IOMMU, booted"},
	{`"ip link show " + f.nic.Name`, "", "it only looks, where the kernel does not tell otherwise"},
	{
		`h.Remedy() + ", when that process is not needed; else use --datapath auto, which takes a ring or plain sockets beside it"`, "TestRemedyKill TestRemedyOwnProgram", "",
	},
	{
		`fmt.Sprintf("use --datapath auto, which asks it at /run/ndbroker/%s; where it listens elsewhere, name its socket (--broker)", f.nic.Name)`,
		"TestUnbidden", "",
	},
	{`h.Remedy() + ", when nobody needs it"`, "TestRemedyForeignXDPProgram", ""},
	{`h.Remedy() + ", when nobody needs it; else use --datapath auto, which takes a ring or plain sockets beside it"`, "TestRemedyForeignXDPProgram TestBrokenForeignXDPProgram", ""},
	{
		`"use --datapath generic, or udp when it goes on; an address of the interface that packets arrive on"`, "",
		"an interface that loses what XDP redirects to its sockets although it takes part in the choice of auto: none is known",
	},
	{
		`"log in so that XDG_RUNTIME_DIR is set; else let /run/ndxdp (for root) or $XDG_RUNTIME_DIR/ndxdp and reset.key in it belong to this user, with modes 0700 and 0600"`,
		"TestRemedyResetKey", "",
	},
	{
		`"use --datapath auto, which takes a ring or plain sockets beside it; or end the process that has it (ss -ulpn sport = :" + strconv.Itoa(int(f.cfg.UDPPort)) + ")"`,
		"TestRemedyKill TestRemedyOwnProgram", "",
	},
	{`"none is needed; for AF_XDP, end the process that has it (ss -ulpn sport = :" + strconv.Itoa(int(f.cfg.UDPPort)) + ")"`, "TestRemedyKill", ""},
	{
		`fmt.Sprintf("stop that program (ss -ulpn sport = :%d); or use one other port here and at every peer, such as --udp-port %d", f.cfg.UDPPort, otherPort(f.cfg.UDPPort))`,
		"TestRemedyPort", "",
	},
	{`"ss -ulpn sport = :" + strconv.Itoa(int(f.cfg.UDPPort))`, "", "it only looks, where the kernel does not tell otherwise"},
	{`fmt.Sprintf("nft delete rule %s handle %d", w.chain, w.handle)`, "TestRemedyFirewall", ""},
	{`w.letThrough(needed)`, "TestRemedyFirewall", ""},
	{`f.ownPorts.letThrough(needed)`, "TestRemedyFirewallBesideAnAdapter", ""},
	{`f.lanes.letThrough(fmt.Sprint(f.lanes.port))`, "", "it is the command of TestRemedyFirewall, for another port"},
	{`"name an address of another machine: --peer ADDRESS"`, "", "it asks for another command line"},
	{
		`"end that process (ss -xap shows whose @ndxdp/" + netip.AddrPortFrom(f.addr, f.cfg.UDPPort).String() + "/udp is)"`,
		"", "ending a process is that of TestRemedyKill",
	},
	{`"free it first: see udp port"`, "", "it names another finding"},
	{`"open one with the same UDP port on both sides (--udp-port)"`, "TestBrokenPeerOnAnotherUDPPort", ""},
	{`fmt.Sprintf("ip route get fibmatch %s from %s oif %s", peer, f.addr, f.nic.Name)`, "TestRemedyLooks", ""},
	{`fmt.Sprintf("check that the peer is up and on the same network: ip neigh show %s dev %s", peer, f.nic.Name)`, "TestRemedyLooks", ""},
	{`fmt.Sprintf("on the peer: ss -ulpn sport = :%d, and nft list ruleset", f.cfg.UDPPort)`, "", "it only looks, on another machine; ss is that of TestRemedyPort"},
	{`"see the other findings"`, "", "it names other findings"},
}

// TestRemediesAreTested: the table has exactly the remedies of the judges, and the tests that it names exist.
func TestRemediesAreTested(t *testing.T) {
	found := remediesOfJudges(t)
	tests := testsOf(t, "../../cmd/ndinfo", "../../cmd/ndbroker", "../../internal/datapath", "../../internal/datapath/plan")
	cited := map[string]bool{}
	for _, r := range remedies {
		if !found[r.remedy] {
			t.Errorf("no judge gives the remedy %s", r.remedy)
		}
		delete(found, r.remedy)
		if r.tests == "" && r.reason == "" {
			t.Errorf("neither a test nor a reason for %s", r.remedy)
		}
		for name := range strings.FieldsSeq(r.tests) {
			cited[name] = true
			if !tests[name] {
				t.Errorf("the test %s of the remedy %s does not exist", name, r.remedy)
			}
		}
	}
	for remedy := range found {
		t.Errorf("a remedy that no test runs and no reason excuses: %s", remedy)
	}
	for name := range tests {
		if strings.HasPrefix(name, "TestRemedy") && !cited[name] {
			t.Errorf("%s runs no remedy of the table", name)
		}
	}
}

// parsed are the files of a directory.
func parsed(t *testing.T, dir string, want func(name string) bool) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	for _, path := range paths {
		if !want(path) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func testsOf(t *testing.T, dirs ...string) map[string]bool {
	names := map[string]bool{}
	for _, dir := range dirs {
		for _, file := range parsed(t, dir, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
					names[f.Name.Name] = true
				}
			}
		}
	}
	return names
}

// makers are the functions that make findings with a remedy as the last argument.
var makers = []string{"hint", "problem", "serious", "unlessFallback"}

// remediesOfJudges returns the expressions that this package passes as remedies.
func remediesOfJudges(t *testing.T) map[string]bool {
	found := map[string]bool{}
	for _, file := range parsed(t, ".", func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || slices.Contains(makers, f.Name.Name) {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && slices.Contains(makers, nameOf(call.Fun)) {
					found[written(t, valueIn(f, call.Args[len(call.Args)-1]))] = true
				}
				return true
			})
		}
	}
	return found
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// valueIn returns the expression that a function assigned to a name, and any other expression unchanged.
func valueIn(f *ast.FuncDecl, e ast.Expr) ast.Expr {
	name, ok := e.(*ast.Ident)
	if !ok {
		return e
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && nameOf(a.Lhs[0]) == name.Name {
			e = a.Rhs[0]
		}
		return true
	})
	return e
}

// written prints an expression on one line.
func written(t *testing.T, e ast.Expr) string {
	t.Helper()
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), e); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
