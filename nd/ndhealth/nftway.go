package ndhealth

import (
	"encoding/json"
	"fmt"
)

// maxJumps is how many jumps lie one inside the other at the most: the kernel takes no rules that go deeper (NFT_JUMP_STACK_SIZE of
// linux/netfilter/nf_tables.h).
const maxJumps = 16

// chainName is how rules and jumps name a chain.
type chainName struct{ family, table, name string }

// way is that of packets to a port through the chains that one hook leads to.
type way struct {
	*firewall
	all   *ruleset
	rules map[chainName][]*nftRule
	seen  map[visit]bool // where the way has been: it ended there, or went on behind
	rest  bool           // a rule drops all packets that come there, whatever their port
	blind bool           // a map may lead where this does not follow
}

// visit is a chain, and what the rules that lead to it ask for.
type visit struct {
	chain chainName
	met   effect
}

// rulesOf returns the rules of each chain, in their order.
func (all *ruleset) rulesOf() map[chainName][]*nftRule {
	of := map[chainName][]*nftRule{}
	for _, o := range all.Objects {
		if r := o.Rule; r != nil {
			at := chainName{r.Family, r.Table, r.Chain}
			of[at] = append(of[at], r)
		}
	}
	return of
}

// through goes through a chain, and those that it leads to. over says that a verdict ends the way. Without one it goes on behind the jump.
func (w *way) through(c chainName, met effect, jumps int) (over bool) {
	at := visit{c, met}
	if jumps > maxJumps || w.seen[at] { // in a circle, for one, which the kernel would not take
		return false
	}
	w.seen[at] = true
	for _, r := range w.rules[c] {
		does := r.about(w.all, w.port)
		if does == (effect{}) {
			continue
		}
		does.named, does.others, does.answers = does.named || met.named, does.others || met.others, does.answers || met.answers
		w.blind = w.blind || does.blind
		switch {
		case does.target != "":
			so := effect{named: does.named, others: does.others, answers: does.answers}
			if w.through(chainName{c.family, c.table, does.target}, so, jumps+1) {
				return true
			}
			if does.leaves && !does.others {
				return false
			}
		case does.leaves && !does.others:
			return false
		case does.accepts && (does.named || !does.others): // from some at least: whoever wrote that thought of the port
			return true
		case does.accepts && does.answers:
			w.answers = true
		case does.drops && does.named:
			w.stop(c, r.Handle, &does)
			return true
		case does.drops && !does.others:
			w.rest = true
			return true
		}
	}
	return false
}

// stop takes note of the rule that stops packets to the port.
func (w *way) stop(c chainName, handle int, does *effect) {
	w.chain, w.handle = c.String(), handle
	if does.others {
		w.what = mayStop
		return
	}
	w.what, w.only = stops, does.only
}

func (c chainName) String() string { return fmt.Sprintf("%s %s %s", c.family, c.table, c.name) }

// targetOf returns the chain that a jump leads to.
func targetOf(text json.RawMessage) string {
	var to struct{ Target string }
	_ = json.Unmarshal(text, &to) // what cannot be read leads nowhere
	return to.Target
}
