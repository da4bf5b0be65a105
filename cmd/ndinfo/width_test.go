package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// columns is the default width of a terminal.
const columns = 80

// wantColumns checks that no line is wider than a terminal, except remedies, which users copy.
func wantColumns(t *testing.T, out string, width int) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && !strings.HasPrefix(strings.TrimLeft(line, " "), "do:  ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestDiagnosisFits: sentences are wrapped beside the name of their check, a command stays on its line, and a pipe gets a line for each
// finding.
func TestDiagnosisFits(t *testing.T) {
	remedy := "sudo setcap " + strings.Repeat("cap_net_admin,", 10) + "cap_bpf+ep PROGRAM"
	long := strings.Repeat("some words of it ", 9) + "end"
	d := &diagnosis{
		Reports: []ndhealth.Report{{Interface: "eth0", Address: "2001:db8::1", Datapath: "generic", Reason: long, Findings: []ndhealth.Finding{
			{Check: "kernel", Found: long},
			{Check: "socket buffers", Severity: ndhealth.Problem, Found: long, Why: long, Remedy: remedy},
		}}},
		Down: []string{"eth1", "eth2 192.0.2.9", "a-long-name-0", "a-long-name-1", "a-long-name-2"}, SelfTest: &trial{Said: long},
	}
	var out bytes.Buffer
	renderDiagnosis(&out, d, columns)
	wantColumns(t, out.String(), columns)
	if !strings.Contains(out.String(), "do:  "+remedy+"\n") {
		t.Errorf("the command is broken:\n%s", &out)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "  ") && strings.Contains(line, "why: ") && strings.Index(line, "why: ") != foundAt {
			t.Errorf("not beneath what was found: %s", line)
		}
	}
	out.Reset()
	renderDiagnosis(&out, d, 0)
	// The lines are the interface, two findings, an empty line, the interfaces that are down, the self test, and the verdict.
	if n := strings.Count(out.String(), "\n"); n != 7 || !strings.Contains(out.String(), "; why: "+long+"; do: "+remedy+"\n") {
		t.Errorf("%d lines in a pipe:\n%s", n, &out)
	}
	renderDiagnosis(&out, d, 30) // too narrow for a second column: the terminal wraps the lines, and nothing is missing
	if !strings.Contains(out.String(), "why: "+long) {
		t.Errorf("%s", &out)
	}
}

// TestAdaptersFit: sentences are below the table if there is no room beside it. A pipe gets a line for each adapter.
func TestAdaptersFit(t *testing.T) {
	long := strings.Repeat("some words of it ", 9) + "end"
	a := ndhealth.Adapter{
		Address: netip.MustParseAddr("2001:db8:1234:5678:9abc:def0:1234:5678"), Interface: "enp129s0f1np1", Driver: "virtio_net", RxQueues: 64, TxQueues: 64, MTU: 65536,
		Datapath: nd.DatapathGeneric, Reason: long, Carrier: true, OpenBy: []ndhealth.Running{{PID: 4194304, Command: "a command", Datapath: "generic", Copying: long}},
		Limits: nd.Info{MaxRegistrationSize: 1 << 40, MaxWindowSize: 1 << 40, MaxTransferLength: 1 << 30},
	}
	short := a
	short.Address, short.Interface = netip.MustParseAddr("192.0.2.1"), "eth0"
	for name, list := range map[string][]ndhealth.Adapter{"narrow": {short}, "wide": {short, a}} {
		for _, width := range []int{columns, 110, 0} {
			var out bytes.Buffer
			renderListing(&out, &listing{Adapters: list, Down: []ndhealth.Interface{{Name: "eth1"}}, Unseen: []string{strings.Repeat("unseen ", 20) + "end"}}, width)
			if width > 0 {
				wantColumns(t, out.String(), width)
			}
			lines := 0
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, long) {
					lines++
				}
				if strings.HasSuffix(line, " \n") {
					t.Errorf("blanks at the end of %q", line)
				}
			}
			if width == 0 && lines != 2*len(list) {
				t.Errorf("%s: %d of %d records are on one line in a pipe:\n%s", name, lines, 2*len(list), &out)
			}
			if strings.Count(strings.Join(strings.Fields(out.String()), " "), "of it end") != 2*len(list) || !strings.Contains(out.String(), "down: eth1") {
				t.Errorf("%s, %d columns:\n%s", name, width, &out)
			}
		}
	}
}

// TestInterfaceThatIsDown: both commands list it with its state, whether it kept its address or not. The same holds for an interface
// without a carrier.
func TestInterfaceThatIsDown(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	must(t, pair.A.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "bare0"
		return errors.Join(netlink.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}),
			netlink.LinkSetDown(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexA}}))
	}))
	say := func(ns *netlab.Namespace, args ...string) string {
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(&out)
		if err := ns.Do(func() error { return root.ExecuteContext(t.Context()) }); err != nil && !errors.Is(err, errUnfit) {
			t.Error(err)
		}
		return out.String()
	}
	if out := say(pair.A); !strings.Contains(out, "nd0 10.99.0.1") || !strings.Contains(out, "bare0") || !strings.Contains(out, "ip link set NAME up") {
		t.Errorf("ndinfo:\n%s", out)
	}
	if out := say(pair.A, "doctor"); !strings.Contains(out, "nd0 is down; why: ") || !strings.Contains(out, "do: ip link set nd0 up\n") || !strings.Contains(out, "down: bare0;") {
		t.Errorf("doctor:\n%s", out)
	}
	var d diagnosis
	must(t, json.Unmarshal([]byte(say(pair.A, "doctor", "--json")), &d))
	if fmt.Sprint(d.Down) != "[bare0]" {
		t.Errorf("doctor --json: %q", d.Down)
	}
	if out := say(pair.B); !strings.Contains(out, "the interface has no carrier") {
		t.Errorf("ndinfo at the other end:\n%s", out)
	}
}
