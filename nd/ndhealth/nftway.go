package ndhealth

import (
	"encoding/json"
	"fmt"
)

// maxJumps is the largest depth of jumps, which is also the kernel's limit (NFT_JUMP_STACK_SIZE of linux/netfilter/nf_tables.h).
const maxJumps = 16

// chainName identifies a chain in rules and jumps.
type chainName struct{ family, table, name string }

// way is the path of packets to a port through the chains of one hook.
type way struct {
	*firewall
	all   *ruleset
	rules map[chainName][]*nftRule
	seen  map[visit]bool // chains visited so far, with their conditions
	rest  bool           // a rule drops all remaining packets, whatever their port
	blind bool           // an unreadable map may lead elsewhere
}

// visit is a chain, with the conditions of the rules that lead to it.
type visit struct {
	chain chainName
	met   effect
}

// rulesOf returns the rules of each chain, in order.
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

// through walks through a chain and the chains that it jumps to. over means that a verdict ends the walk; otherwise it continues
// behind the jump.
func (w *way) through(c chainName, met effect, jumps int) (over bool) {
	at := visit{c, met}
	if jumps > maxJumps || w.seen[at] { // for example a loop, which the kernel would refuse
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
		case does.accepts && (does.named || !does.others): // accepted from some sources at least, so the rule's author knew the port
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

// stop records the rule that drops packets to the port.
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
	_ = json.Unmarshal(text, &to) // an unreadable target leads nowhere
	return to.Target
}
