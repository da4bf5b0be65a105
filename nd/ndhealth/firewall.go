package ndhealth

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// nftPatience bounds the time for nft to list its rules. It takes a second for tens of thousands of elements.
const nftPatience = 5 * time.Second

// verdict is the effect of a rule on a port.
type verdict uint8

const (
	passes   verdict = iota // no known rule drops it
	stops                   // a rule drops it from every source
	mayStop                 // a rule drops it from some sources
	byPolicy                // no rule names the port, and the policy or the last rule of the chain drops what was not accepted
)

// firewall is the effect of nft's rules on UDP packets to a port.
type firewall struct {
	known  bool // the rules could be read
	port   uint16
	what   verdict
	chain  string // for example "inet filter input"
	handle int    // of the rule
	only   bool   // the rule is about this port only
	sent   bool   // the chain is for sent packets
	// answers means that packets that answer sent packets are accepted before.
	answers bool
}

// The ports of further adapters of an address (PROTOCOL §2, §7.8), and samples of them.
const firstOwnPort, lastOwnPort = 49152, 65535

var ownPorts = []uint16{firstOwnPort, (firstOwnPort + lastOwnPort) / 2, lastOwnPort}

// listRules reads the rules of nft in the network namespace of the calling thread. It returns nil if nft is missing or forbidden.
func listRules(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, nftPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nft", "--json", "list", "ruleset")
	cmd.WaitDelay = nftPatience // for children that keep its output open
	text, err := cmd.Output()
	if err != nil {
		return nil
	}
	return text
}

// readFirewall determines the effect on UDP packets to the ports of adapters of the address.
func (f *facts) readFirewall(text []byte) {
	is4 := !f.addr.IsValid() || f.addr.Is4()
	f.firewall = judgeRules(text, f.cfg.UDPPort, is4)
	if f.port.shared {
		f.ownPorts = firstStopped(text, is4, ownPorts...)
	}
	var lanes []uint16
	for _, r := range f.running {
		if r.BulkPort != 0 {
			lanes = append(lanes, r.BulkPort)
		}
	}
	if f.lanes = firstStopped(text, is4, lanes...); f.lanes.answers {
		f.lanes = firewall{} // a bulk path sends from its own port to the peer's bulk port
	}
}

// firstStopped returns the result for the first port that is dropped.
func firstStopped(text []byte, is4 bool, ports ...uint16) firewall {
	for _, p := range ports {
		if w := judgeRules(text, p, is4); w.what != passes {
			return w
		}
	}
	return firewall{}
}

// judgeRules evaluates the chains for received packets, and for packets sent to peers, which have the same port.
func judgeRules(text []byte, port uint16, is4 bool) firewall {
	var all ruleset
	if json.Unmarshal(text, &all) != nil {
		return firewall{}
	}
	rules := all.rulesOf()
	families := []string{"inet", "ip6"}
	if is4 {
		families[1] = "ip"
	}
	for _, o := range all.Objects {
		c := o.Chain
		if c == nil || !slices.Contains(families, c.Family) || !slices.Contains([]string{"input", "prerouting", "output"}, c.Hook) {
			continue
		}
		name := chainName{c.Family, c.Table, c.Name}
		f := firewall{known: true, port: port, chain: name.String(), sent: c.Hook == "output"}
		w := way{firewall: &f, all: &all, rules: rules, seen: map[visit]bool{}}
		over := w.through(name, effect{}, 0)
		elsewhere := w.blind && acceptedIn(&all, c, port)
		if (w.rest || !over && c.Policy == "drop") && !elsewhere {
			f.what = byPolicy
		}
		if f.what != passes {
			return f
		}
	}
	return firewall{known: true, port: port}
}

// acceptedIn reports whether a rule of the chain's table accepts the port. A map that cannot be read may lead to this rule.
func acceptedIn(all *ruleset, c *nftChain, port uint16) bool {
	for _, o := range all.Objects {
		if r := o.Rule; r != nil && r.Family == c.Family && r.Table == c.Table {
			if does := r.about(all, port); does.named && does.accepts {
				return true
			}
		}
	}
	return false
}

// letThrough returns the command that accepts ports in a chain before its other rules.
func (f *firewall) letThrough(ports string) string {
	return fmt.Sprintf("nft insert rule %s 'udp dport %s accept'", f.chain, ports)
}

func judgeFirewall(f *facts) (Finding, bool) {
	w, port := f.firewall, f.cfg.UDPPort
	why := "plain sockets are behind the firewall: requests of peers do not arrive"
	if w.sent {
		why = "plain sockets are behind the firewall: nothing that is sent to peers gets out"
	}
	needed := fmt.Sprintf("{ %d,%d-%d }", port, firstOwnPort, lastOwnPort) // the range is for further adapters of an address
	switch {
	case !w.known:
		return Finding{}, false
	case w.what == passes && f.ownPorts.what != passes && !f.overXDP():
		return hint(f.ownPorts.said(), "there is an adapter of the address already, so that another one receives on a UDP port of its own, which peers do not reach: "+
			"a firewall has to let through the well-known port and those from 49152 on", f.ownPorts.letThrough(needed)), true
	case f.lanes.what != passes && f.overXDP():
		return hint(f.lanes.said()+", that of a bulk lane", "long messages go by AF_XDP alone, which moves less; everything else goes on",
			f.lanes.letThrough(fmt.Sprint(f.lanes.port))), true
	case w.what == passes:
		return ok("no rule of nft that names UDP port %d drops it", port), true
	case f.overXDP():
		return ok("nft drops UDP port %d (chain %s); AF_XDP takes packets before that", port, w.chain), true
	case w.only && w.what == stops:
		return problem(w.said(), why, fmt.Sprintf("nft delete rule %s handle %d", w.chain, w.handle)), true
	case w.what == mayStop:
		return hint(w.said(), why, fmt.Sprintf("nft delete rule %s handle %d", w.chain, w.handle)), true
	case w.what == stops: // other ports, too
		return problem(w.said(), why, w.letThrough(needed)), true
	}
	return hint(w.said(), why, w.letThrough(needed)), true
}

// said describes what drops the port.
func (f *firewall) said() string {
	switch f.what {
	case stops:
		return fmt.Sprintf("rule %d of chain %s drops UDP port %d", f.handle, f.chain, f.port)
	case mayStop:
		return fmt.Sprintf("rule %d of chain %s drops UDP port %d from some", f.handle, f.chain, f.port)
	case passes, byPolicy:
	}
	return fmt.Sprintf("chain %s drops what no rule accepts, and none names UDP port %d", f.chain, f.port)
}

func judgeSharedLink(f *facts) (Finding, bool) {
	switch {
	case f.nic.Driver != "veth" || !f.overXDP():
		return Finding{}, false
	case f.byTCX():
		return ok("kernel TCP over this pair is as fast as before while an adapter is open here; native mode costs it its segmentation"), true
	case f.overNative():
		return ok("kernel TCP from the peer interface of the pair loses its segmentation while an adapter is open here; generic mode costs it less, and tcx nothing"), true
	}
	return ok("kernel TCP over this pair is somewhat slower while an adapter is open here; native mode costs it more, and tcx nothing"), true
}
