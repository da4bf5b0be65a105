package ndhealth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/nd"
)

// Elements of nft rules in JSON.
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

// oneChain is a ruleset of a chain with rules at a hook, and a chain that is reached only by jumps.
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

// TestFirewallOfTheOtherFamilyIsNoMatter: rules for IPv6 do not apply to an adapter with an IPv4 address, and the reverse.
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

// TestFirewallThatDropsTheRest: instead of a drop policy, a chain may end with a rule that drops all remaining packets.
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

// TestFirewallForWhatIsSent: packets to peers have the port as well.
func TestFirewallForWhatIsSent(t *testing.T) {
	f := healthy()
	f.cfg.Datapath, f.firewall = nd.DatapathUDP, judgeRules(oneChain("inet", "output", [][]string{{ourPort, drop}}), 14791, true)
	if got, _ := judgeFirewall(f); got.Severity != Problem || !strings.Contains(got.Why, "sent") || got.Remedy != "nft delete rule inet t c handle 2" {
		t.Errorf("%+v", got)
	}
}

// dport is a comparison with the destination port.
func dport(op, right string) string {
	return fmt.Sprintf(`{"match":{"op":%q,"left":{"payload":{"protocol":"udp","field":"dport"}},"right":%s}}`, op, right)
}

// verdicts is a verdict map with the destination port as its key.
func verdicts(data string) string {
	return `{"vmap":{"key":{"payload":{"protocol":"udp","field":"dport"}},"data":` + data + `}}`
}

// TestFirewallReadsRules: comparisons, ranges, sets, and named and anonymous verdict maps, as nft prints them, together with rules
// about other packets.
func TestFirewallReadsRules(t *testing.T) {
	for name, c := range map[string]struct {
		rule []string
		want verdict
	}{
		"map":                      {[]string{verdicts(`{"set":[[53,{"accept":null}],[14791,{"drop":null}]]}`)}, stops},
		"map of ranges":            {[]string{verdicts(`{"set":[[53,{"accept":null}],[{"range":[14000,15000]},{"drop":null}]]}`)}, stops},
		"map with a name":          {[]string{verdicts(`"@m"`)}, stops},
		"map for the rest":         {[]string{verdicts(`{"set":[[53,{"accept":null}],["*",{"drop":null}]]}`)}, stops},
		"map that accepts":         {[]string{verdicts(`{"set":[[14791,{"accept":null}]]}`)}, passes},
		"map of others":            {[]string{verdicts(`{"set":[[53,{"drop":null}]]}`)}, passes},
		"map that leads elsewhere": {[]string{verdicts(`{"set":[[14791,{"jump":{"target":"allowed"}}]]}`)}, passes},
		"map, from one":            {[]string{fromOne, verdicts(`{"set":[[14791,{"drop":null}]]}`)}, mayStop},
		"map of protocols":         {[]string{`{"vmap":{"key":{"meta":{"key":"l4proto"}},"data":{"set":[["tcp",{"accept":null}],["udp",{"drop":null}]]}}}`}, byPolicy},
		"all but one":              {[]string{dport("!=", "53"), drop}, stops},
		"all but this":             {[]string{dport("!=", "14791"), drop}, passes},
		"all but some":             {[]string{dport("!=", `{"set":[53,54]}`), drop}, stops},
		"all but a range":          {[]string{dport("!=", `{"range":[14000,15000]}`), drop}, passes},
		"from a port on":           {[]string{dport(">=", "1024"), drop}, stops},
		"below a port":             {[]string{dport("<", "1024"), drop}, passes},
		"up to this":               {[]string{dport("<=", "14791"), drop}, stops},
		"above this":               {[]string{dport(">", "14791"), drop}, passes},
		"set with a name":          {[]string{dport("==", `"@s"`), drop}, stops},
		"set with a name, not in":  {[]string{dport("!=", `"@s"`), drop}, passes},
		"set that is not there":    {[]string{dport("==", `"@none"`), drop}, passes},
		"element that ends":        {[]string{dport("==", `{"set":[{"elem":{"val":14791,"timeout":60}}]}`), drop}, stops},
		"port of whatever carries": {[]string{`{"match":{"op":"==","left":{"payload":{"protocol":"th","field":"dport"}},"right":14791}}`, drop}, stops},
		"port of TCP and UDP": {[]string{
			`{"match":{"op":"==","left":{"meta":{"key":"l4proto"}},"right":{"set":["tcp","udp"]}}}`,
			`{"match":{"op":"==","left":{"payload":{"protocol":"th","field":"dport"}},"right":14791}}`, drop,
		}, stops},
		"port of TCP": {[]string{
			`{"match":{"op":"==","left":{"meta":{"key":"l4proto"}},"right":"tcp"}}`,
			`{"match":{"op":"==","left":{"payload":{"protocol":"th","field":"dport"}},"right":14791}}`, drop,
		}, passes},
		"all of UDP over IPv4": {[]string{`{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"protocol"}},"right":"udp"}}`, drop}, byPolicy},
		"sender and port":      {[]string{`{"match":{"op":"==","left":{"concat":[{"payload":{"protocol":"ip","field":"saddr"}},{"payload":{"protocol":"udp","field":"dport"}}]},"right":{"set":[{"concat":["192.0.2.1",14791]}]}}}`, drop}, passes},
	} {
		text := strings.TrimSuffix(string(oneChain("inet", "input", [][]string{c.rule})), "]}") +
			`,{"map":{"family":"inet","name":"m","table":"t","type":"inet_service","map":"verdict","elem":[[14791,{"drop":null}]]}}` +
			`,{"set":{"family":"inet","name":"s","table":"t","type":"inet_service","elem":[53,{"range":[14000,15000]}]}}]}`
		if f := judgeRules([]byte(text), 14791, true); !f.known || f.what != c.want {
			t.Errorf("%s: %+v, want verdict %d", name, f, c.want)
		}
	}
}

// TestFirewallKeepsRulesOfOthers: the remedy removes a rule that is only about this port. In front of a rule that is also about
// others, it inserts a rule that accepts this port.
func TestFirewallKeepsRulesOfOthers(t *testing.T) {
	for rule, want := range map[string]string{
		ourPort:            "nft delete rule inet t c handle 2",
		dport("!=", "53"):  "nft insert rule inet t c 'udp dport { 14791,49152-65535 } accept'",
		dport(">", "1024"): "nft insert rule inet t c 'udp dport { 14791,49152-65535 } accept'",
	} {
		f := healthy()
		f.cfg.Datapath, f.firewall = nd.DatapathUDP, judgeRules(oneChain("inet", "input", [][]string{{rule, drop}}), 14791, true)
		if got, _ := judgeFirewall(f); got.Severity != Problem || got.Remedy != want {
			t.Errorf("%s: %+v", rule, got)
		}
	}
}

// TestFirewallAcceptsAll: packets accepted by a rule for all packets, or for all UDP, do not reach the chain's policy.
func TestFirewallAcceptsAll(t *testing.T) {
	for _, rule := range [][]string{{accept}, {udp, accept}} {
		text := strings.Replace(string(oneChain("inet", "input", [][]string{rule})), `"policy":"accept"`, `"policy":"drop"`, 1)
		if f := judgeRules([]byte(text), 14791, true); !f.known || f.what != passes {
			t.Errorf("%v: %+v", rule, f)
		}
	}
}

// TestFirewallBeforeOtherPorts: an adapter beside another one needs its own port open, and a bulk path needs the port that the
// kernel chose. Replies to packets of a bulk path arrive at their source port.
func TestFirewallBeforeOtherPorts(t *testing.T) {
	const established = `{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established","related"]}}`
	closed := [][]string{{ourPort, accept}, {drop}}
	for name, c := range map[string]struct {
		rules [][]string
		spoil func(*facts)
		want  string // "" for nothing
	}{
		"alone over plain sockets":   {closed, func(f *facts) { f.cfg.Datapath = nd.DatapathUDP }, ""},
		"beside another one":         {closed, func(f *facts) { f.cfg.Datapath, f.port.shared = nd.DatapathUDP, true }, "names UDP port 49152"},
		"beside another one, open":   {[][]string{{ourPort, accept}, {dport(">=", "49152"), accept}, {drop}}, func(f *facts) { f.cfg.Datapath, f.port.shared = nd.DatapathUDP, true }, ""},
		"beside another one, partly": {[][]string{{dport(">=", "60000"), drop}}, func(f *facts) { f.cfg.Datapath, f.port.shared = nd.DatapathUDP, true }, "drops UDP port 65535"},
		"a lane":                     {closed, func(f *facts) { f.running[0].BulkPort = 40000 }, "names UDP port 40000, that of a bulk lane"},
		"no lane":                    {closed, func(f *facts) {}, ""},
		"a lane that gets answers":   {append([][]string{{established, accept}}, closed...), func(f *facts) { f.running[0].BulkPort = 40000 }, ""},
	} {
		f := healthy()
		c.spoil(f)
		f.readFirewall(oneChain("inet", "input", c.rules))
		got, looked := judgeFirewall(f)
		if c.want == "" && (!looked || got.Severity != OK) {
			t.Errorf("%s: %+v", name, got)
		}
		if c.want != "" && (got.Severity != Hint || !strings.Contains(got.Found, c.want) || !strings.HasPrefix(got.Remedy, "nft insert rule inet t c 'udp dport ")) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
