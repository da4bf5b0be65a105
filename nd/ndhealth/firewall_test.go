package ndhealth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/nd"
)

// What rules of nft have in its JSON.
const (
	ourPort = `{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":14791}}`
	udp     = `{"match":{"op":"==","left":{"meta":{"key":"l4proto"}},"right":"udp"}}`
	fromOne = `{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"192.0.2.9"}}`
	limited = `{"limit":{"rate":10,"per":"second","inv":true}}`
	counted = `{"counter":{"packets":0,"bytes":0}}`
	accept  = `{"accept":null}`
	drop    = `{"drop":null}`
	reject  = `{"reject":{"type":"icmpx","expr":"admin-prohibited"}}`
	jump    = `{"jump":{"target":"allowed"}}`
)

// oneChain has a chain that packets meet at a hook, with rules, and one that only jumps lead to.
func oneChain(family, hook string, rules [][]string, allowed ...[]string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"nftables":[{"chain":{"family":%q,"table":"t","name":"c","handle":1,"type":"filter","hook":%q,"prio":0,"policy":"accept"}}`, family, hook)
	for chain, rules := range map[string][][]string{"c": rules, "allowed": allowed} {
		for i, r := range rules {
			fmt.Fprintf(&b, `,{"rule":{"family":%q,"table":"t","chain":%q,"handle":%d,"expr":[%s]}}`, family, chain, i+2, strings.Join(r, ","))
		}
	}
	return []byte(b.String() + "]}")
}

// TestFirewallOfTheOtherFamilyIsNoMatter: rules for IPv6 are none for an adapter of an IPv4 address, and the other way round.
func TestFirewallOfTheOtherFamilyIsNoMatter(t *testing.T) {
	for family, want := range map[string]map[bool]verdict{
		"ip": {true: stops, false: passes}, "ip6": {true: passes, false: stops}, "inet": {true: stops, false: stops},
		"bridge": {true: passes, false: passes},
	} {
		for is4, want := range want {
			if f := judgeRules(oneChain(family, "input", [][]string{{ourPort, drop}}), 14791, is4); !f.known || f.what != want {
				t.Errorf("table %s, IPv4 %v: %+v", family, is4, f)
			}
		}
	}
}

// TestFirewallThatDropsTheRest: a chain may end with a rule for all that none before it accepted, instead of a policy.
func TestFirewallThatDropsTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		rules   [][]string
		allowed [][]string
		want    verdict
	}{
		"all":                         {rules: [][]string{{counted, drop}}, want: byPolicy},
		"all with an answer":          {rules: [][]string{{reject}}, want: byPolicy},
		"all of UDP":                  {rules: [][]string{{udp, drop}}, want: byPolicy},
		"from one":                    {rules: [][]string{{fromOne, drop}}, want: passes},
		"what is too much":            {rules: [][]string{{limited, drop}}, want: passes},
		"the port, when too much":     {rules: [][]string{{ourPort, limited, drop}}, want: mayStop},
		"after the port was accepted": {rules: [][]string{{ourPort, accept}, {drop}}, want: passes},
		"before the port is accepted": {rules: [][]string{{drop}, {ourPort, fromOne, drop}}, want: byPolicy},
		"after a jump":                {rules: [][]string{{jump}, {reject}}, allowed: [][]string{{ourPort, accept}}, want: passes},
	} {
		f := judgeRules(oneChain("inet", "input", c.rules, c.allowed...), 14791, true)
		if f.what != c.want {
			t.Errorf("%s: %+v, want verdict %d", name, f, c.want)
		}
	}
}

// TestFirewallForWhatIsSent: packets to peers have the port, too.
func TestFirewallForWhatIsSent(t *testing.T) {
	f := healthy()
	f.cfg.Datapath, f.firewall = nd.DatapathUDP, judgeRules(oneChain("inet", "output", [][]string{{ourPort, drop}}), 14791, true)
	if got, _ := judgeFirewall(f); got.Severity != Problem || !strings.Contains(got.Why, "sent") || got.Remedy != "nft delete rule inet t c handle 2" {
		t.Errorf("%+v", got)
	}
}
