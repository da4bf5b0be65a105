package ndhealth

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/nd"
)

// TestFirewallFollowsJumps: jump, goto and return, in rules and in verdict maps, in the output of nft for a ruleset.
func TestFirewallFollowsJumps(t *testing.T) {
	text, err := os.ReadFile("testdata/jumps.json")
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[uint16]firewall{
		14791: {what: stops, chain: "inet filter deeper", handle: 10, only: true}, // goto, then jump
		16000: {what: mayStop, chain: "inet filter deeper", handle: 9},
		17000: {what: passes}, // returns from the target of goto, so the drop behind it does not apply
		18000: {what: stops, chain: "inet filter closed", handle: 14},
		19000: {what: passes},
		20000: {what: mayStop, chain: "inet filter one", handle: 15}, // a jump for one source address
		21000: {what: byPolicy, chain: "inet filter input"},          // occurs only in a chain that is never reached
		9:     {what: byPolicy, chain: "inet filter input"},
		22000: {what: passes}, // goto does not return
		40000: {what: passes},
	} {
		got := judgeRules(text, port, true)
		if !got.known || got.what != want.what || got.handle != want.handle || got.only != want.only || want.what != passes && got.chain != want.chain {
			t.Errorf("port %d: %+v, want %+v", port, got, want)
		}
	}
	f := healthy()
	f.cfg.Datapath, f.firewall = nd.DatapathUDP, judgeRules(text, 14791, true)
	if got, _ := judgeFirewall(f); got.Severity != Problem || got.Remedy != "nft delete rule inet filter deeper handle 10" {
		t.Errorf("%+v", got)
	}
}

// chains is a ruleset with the chains of table t. Packets enter at the first one.
func chains(of ...[]string) []byte {
	text := oneChain("inet", "input", nil)
	var b strings.Builder
	b.Write(text[:len(text)-len("]}")])
	handle := 2
	for i, rules := range of {
		for _, r := range rules {
			fmt.Fprintf(&b, `,{"rule":{"family":"inet","table":"t","chain":%q,"handle":%d,"expr":[%s]}}`, nthChain(i), handle, r)
			handle++
		}
	}
	return []byte(b.String() + "]}")
}

// nthChain returns the name of chain i.
func nthChain(i int) string {
	if i == 0 {
		return "c"
	}
	return fmt.Sprint("c", i)
}

func jumpTo(i int) string { return fmt.Sprintf(`{"jump":{"target":%q}}`, nthChain(i)) }

// TestFirewallJumpsAreBounded: the rules come from a program's output, and may form a cycle, nest deeper than the kernel allows, or
// reach a chain on very many ways.
func TestFirewallJumpsAreBounded(t *testing.T) {
	dropPort := ourPort + "," + drop
	if f := judgeRules(chains([]string{jumpTo(1), dropPort}, []string{jumpTo(1), jumpTo(0)}), 14791, true); f.what != stops || f.handle != 3 {
		t.Errorf("in a circle: %+v", f)
	}
	for depth, want := range map[int]verdict{maxJumps: stops, maxJumps + 1: passes} {
		var deep [][]string
		for i := range depth {
			deep = append(deep, []string{jumpTo(i + 1)})
		}
		if f := judgeRules(chains(append(deep, []string{dropPort})...), 14791, true); f.what != want {
			t.Errorf("%d deep: %+v", depth, f)
		}
	}
	var wide [][]string
	for i := range maxJumps - 1 {
		var again []string
		for range 50 { // 50^15 paths
			again = append(again, jumpTo(i+1))
		}
		wide = append(wide, again)
	}
	if f := judgeRules(chains(append(wide, []string{dropPort})...), 14791, true); f.what != stops {
		t.Errorf("many paths: %+v", f)
	}
	wide[len(wide)-1] = []string{counted}
	if f := judgeRules(chains(wide...), 14791, true); f.what != passes {
		t.Errorf("many paths to no chain: %+v", f)
	}
}

// TestFirewallThatCannotBeRead: a verdict map with an unknown key may lead to a chain that accepts the port.
func TestFirewallThatCannotBeRead(t *testing.T) {
	const byInterface = `{"vmap":{"key":{"meta":{"key":"iifname"}},"data":{"set":[["eth1",{"jump":{"target":"c1"}}]]}}}`
	for first, want := range map[string]verdict{byInterface: passes, counted: byPolicy} {
		if f := judgeRules(chains([]string{first, drop}, []string{ourPort + "," + accept}), 14791, true); f.what != want {
			t.Errorf("%s: %+v", first, f)
		}
	}
}
