package ndhealth

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// nftPatience bounds how long nft may take to list its rules: tens of thousands of elements take it a second.
const nftPatience = 5 * time.Second

// verdict of a rule about a port.
type verdict uint8

const (
	passes   verdict = iota // nothing is known to stop it
	stops                   // a rule drops it, whoever sends
	mayStop                 // a rule drops it from some
	byPolicy                // no rule names the port, and the chain drops what none accepts, by its policy or by its last rule
)

// firewall is what becomes of UDP packets to a port, as far as nft tells.
type firewall struct {
	known  bool // nft is there, and this process may ask
	what   verdict
	chain  string // "inet filter input"
	handle int    // of the rule
	sent   bool   // the chain is for what this machine sends
}

// The parts of nft's JSON (libnftables-json(5)) that say so.
type (
	ruleset struct {
		Objects []struct {
			Chain *nftChain `json:"chain"`
			Rule  *nftRule  `json:"rule"`
		} `json:"nftables"`
	}
	nftChain struct {
		Family string `json:"family"`
		Table  string `json:"table"`
		Name   string `json:"name"`
		Hook   string `json:"hook"`
		Policy string `json:"policy"`
	}
	nftRule struct {
		Family string                       `json:"family"`
		Table  string                       `json:"table"`
		Chain  string                       `json:"chain"`
		Handle int                          `json:"handle"`
		Expr   []map[string]json.RawMessage `json:"expr"`
	}
	nftMatch struct {
		Op   string `json:"op"`
		Left struct {
			Payload struct{ Protocol, Field string } `json:"payload"`
			Meta    struct{ Key string }             `json:"meta"`
		} `json:"left"`
		Right json.RawMessage `json:"right"`
	}
)

// firewallOf asks nft what becomes of UDP packets to the port, of IPv4 or of IPv6, in the network namespace of the calling thread.
func firewallOf(ctx context.Context, port uint16, is4 bool) firewall {
	ctx, cancel := context.WithTimeout(ctx, nftPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nft", "--json", "list", "ruleset")
	cmd.WaitDelay = nftPatience // for children that keep its output
	text, err := cmd.Output()
	if err != nil {
		return firewall{}
	}
	return judgeRules(text, port, is4)
}

// judgeRules goes through the chains that packets to this machine meet, and those of packets to peers, which have the port, too. It follows no jumps.
func judgeRules(text []byte, port uint16, is4 bool) firewall {
	var all ruleset
	if json.Unmarshal(text, &all) != nil {
		return firewall{}
	}
	families := []string{"inet", "ip6"}
	if is4 {
		families[1] = "ip"
	}
	for _, o := range all.Objects {
		c := o.Chain
		if c == nil || !slices.Contains(families, c.Family) || !slices.Contains([]string{"input", "prerouting", "output"}, c.Hook) {
			continue
		}
		f := firewall{known: true, chain: fmt.Sprintf("%s %s %s", c.Family, c.Table, c.Name), sent: c.Hook == "output"}
		f.what, f.handle = throughChain(&all, c, port)
		if f.what != passes {
			return f
		}
	}
	return firewall{known: true}
}

// throughChain is what a chain makes of packets to the port, and which rule.
func throughChain(all *ruleset, c *nftChain, port uint16) (verdict, int) {
	dropsRest := c.Policy == "drop"
	for _, o := range all.Objects {
		r := o.Rule
		if r == nil || r.Family != c.Family || r.Table != c.Table || r.Chain != c.Name || dropsRest && c.Policy != "drop" {
			continue
		}
		named, others, accepts, drops := r.about(port)
		switch {
		case !named:
			dropsRest = dropsRest || drops && !others
		case accepts:
			return passes, 0 // from some at least: whoever wrote that thought of the port
		case drops && others:
			return mayStop, r.Handle
		case drops:
			return stops, r.Handle
		}
	}
	if dropsRest && !acceptedIn(all, c, port) {
		return byPolicy, 0
	}
	return passes, 0
}

// acceptedIn says that a rule of the chain's table accepts the port: the chain may lead there.
func acceptedIn(all *ruleset, c *nftChain, port uint16) bool {
	for _, o := range all.Objects {
		if r := o.Rule; r != nil && r.Family == c.Family && r.Table == c.Table {
			if named, _, accepts, _ := r.about(port); named && accepts {
				return true
			}
		}
	}
	return false
}

// about says whether a rule is about the port, whether it asks for more than that, and what it does.
func (r *nftRule) about(port uint16) (named, others, accepts, drops bool) {
	for _, e := range r.Expr {
		for kind, text := range e {
			switch kind {
			case "match":
				var m nftMatch
				read := json.Unmarshal(text, &m) == nil && m.Op == "=="
				switch {
				case read && m.Left.Payload.Protocol == "udp" && m.Left.Payload.Field == "dport" && holds(m.Right, port):
					named = true
				case read && m.Left.Meta.Key == "l4proto" && string(m.Right) == `"udp"`: // as iptables writes it; the port says so already
				default:
					others = true
				}
			case "accept":
				accepts = true
			case "drop", "reject":
				drops = true
			case "counter", "log":
			default:
				others = true // a limit, a set, or what cannot be read
			}
		}
	}
	return named, others, accepts, drops
}

// holds says that a port is the number, in the range or in the set of a match.
func holds(right json.RawMessage, port uint16) bool {
	var number uint16
	var of struct {
		Range []uint16          `json:"range"`
		Set   []json.RawMessage `json:"set"`
	}
	if json.Unmarshal(right, &number) == nil {
		return number == port
	}
	if json.Unmarshal(right, &of) != nil {
		return false
	}
	if len(of.Range) == 2 {
		return of.Range[0] <= port && port <= of.Range[1]
	}
	return slices.ContainsFunc(of.Set, func(e json.RawMessage) bool { return holds(e, port) })
}

func judgeFirewall(f *facts) (Finding, bool) {
	w, port := f.firewall, f.cfg.UDPPort
	why := "plain sockets are behind the firewall: requests of peers do not arrive"
	if w.sent {
		why = "plain sockets are behind the firewall: nothing that is sent to peers gets out"
	}
	handle := fmt.Sprintf("rule %d of chain %s drops UDP port %d", w.handle, w.chain, port)
	remedy := fmt.Sprintf("nft delete rule %s handle %d", w.chain, w.handle)
	switch {
	case !w.known:
		return Finding{}, false
	case w.what == passes:
		return ok("no rule of nft that names UDP port %d drops it", port), true
	case f.overXDP():
		return ok("nft drops UDP port %d (chain %s); AF_XDP takes packets before that", port, w.chain), true
	case w.what == stops:
		return problem(handle, why, remedy), true
	case w.what == mayStop:
		return hint(handle+" from some", why, remedy), true
	}
	return hint(fmt.Sprintf("chain %s drops what no rule accepts, and none names UDP port %d", w.chain, port), why,
		fmt.Sprintf("nft insert rule %s udp dport %d accept", w.chain, port)), true
}

func judgeSharedLink(f *facts) (Finding, bool) {
	switch {
	case f.nic.Driver != "veth" || !f.overXDP():
		return Finding{}, false
	case f.byTCX():
		return ok("kernel TCP over this pair is as fast as before while an adapter is open here; native mode costs it its segmentation"), true
	case f.overNative():
		return ok("kernel TCP from the other end of the pair loses its segmentation while an adapter is open here; generic mode costs it less, and tcx nothing"), true
	}
	return ok("kernel TCP over this pair is somewhat slower while an adapter is open here; native mode costs it more, and tcx nothing"), true
}
