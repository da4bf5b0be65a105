package ndhealth

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// The used parts of nft's JSON (libnftables-json(5)).
type (
	ruleset struct {
		Objects []struct {
			Chain *nftChain `json:"chain"`
			Rule  *nftRule  `json:"rule"`
			Set   *nftSet   `json:"set"`
			Map   *nftSet   `json:"map"`
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
	nftSet struct { // or a map
		Family string            `json:"family"`
		Table  string            `json:"table"`
		Name   string            `json:"name"`
		Elem   []json.RawMessage `json:"elem"`
	}
	nftKey struct {
		Payload struct{ Protocol, Field string } `json:"payload"`
		Meta    struct{ Key string }             `json:"meta"`
		CT      struct{ Key string }             `json:"ct"`
	}
	nftMatch struct {
		Op    string          `json:"op"`
		Left  nftKey          `json:"left"`
		Right json.RawMessage `json:"right"`
	}
	nftVerdicts struct {
		Key  nftKey          `json:"key"`
		Data json.RawMessage `json:"data"`
	}
)

// effect is the effect of a rule on UDP packets to a port.
type effect struct {
	named   bool // the rule matches ports, and this port is among them
	only    bool // it matches no other port
	others  bool // it has further conditions, or unreadable ones
	answers bool // it matches the connection state established
	accepts bool
	drops   bool
	leaves  bool   // it leaves the chain: return, or goto
	target  string // the chain of a jump or goto
	blind   bool   // it has an unreadable verdict map, which may lead anywhere
}

// about returns the effect of a rule on UDP packets to a port. The effect is zero if the rule does not match them.
func (r *nftRule) about(all *ruleset, port uint16) (does effect) {
	met := true
	for _, e := range r.Expr {
		for kind, text := range e {
			switch kind {
			case "match":
				met = met && does.match(r, all, text, port)
			case "vmap":
				met = met && does.lookUp(r, all, text, port)
			case "accept", "drop", "reject", "return", "jump", "goto":
				does.end(kind, text)
			case "counter", "log":
			default:
				does.others = true // a limit, a set, or an unreadable condition
			}
		}
	}
	if !met {
		return effect{}
	}
	return does
}

// end handles a verdict.
func (does *effect) end(verdict string, text json.RawMessage) {
	switch verdict {
	case "accept":
		does.accepts = true
	case "drop", "reject":
		does.drops = true
	case "return":
		does.leaves = true
	case "jump":
		does.target = targetOf(text)
	case "goto":
		does.leaves, does.target = true, targetOf(text)
	case "continue":
	default:
		does.others = true
	}
}

// match handles a condition. It returns false if UDP packets to the port cannot match it.
func (does *effect) match(r *nftRule, all *ruleset, text json.RawMessage, port uint16) bool {
	var m nftMatch
	if json.Unmarshal(text, &m) != nil {
		does.others = true
		return true
	}
	var met, read bool
	switch {
	case m.Left.isPort():
		met, read = compare(all.right(r, m.Right), m.Op, port)
		does.named = does.named || read
		does.only = string(m.Right) == decimal(port) && m.Op == "=="
	case m.Left.isProtocol() && (m.Op == "==" || m.Op == "!="):
		met, read = holds(all.right(r, m.Right), isUDP)
		met = met == (m.Op == "==")
	case slices.Contains([]string{"tcp", "sctp", "dccp", "icmp", "icmpv6", "igmp"}, m.Left.Payload.Protocol):
		return false // a condition on another protocol's header
	case m.Left.CT.Key == "state":
		does.answers = m.Op != "!=" && strings.Contains(string(m.Right), `"established"`)
	}
	if !read {
		does.others = true
	}
	return met || !read
}

// lookUp handles a verdict map. It returns false if the map has no verdict for UDP packets to the port.
func (does *effect) lookUp(r *nftRule, all *ruleset, text json.RawMessage, port uint16) bool {
	var v nftVerdicts
	if json.Unmarshal(text, &v) != nil || !v.Key.isPort() && !v.Key.isProtocol() {
		does.others, does.blind = true, true
		return true
	}
	is := isUDP
	if v.Key.isPort() {
		is = isPort(port)
	}
	for _, e := range elements(all.right(r, v.Data)) {
		var pair []json.RawMessage
		var verdict map[string]json.RawMessage
		if json.Unmarshal(e, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[1], &verdict) != nil {
			continue
		}
		if met, _ := holds(pair[0], is); met {
			does.named = does.named || v.Key.isPort()
			for kind, text := range verdict {
				does.end(kind, text)
			}
			return true
		}
	}
	return false
}

// isPort reports whether a key is the destination port, of UDP or of any transport protocol.
func (k *nftKey) isPort() bool {
	return (k.Payload.Protocol == "udp" || k.Payload.Protocol == "th") && k.Payload.Field == "dport"
}

// isProtocol reports whether a key is the transport protocol.
func (k *nftKey) isProtocol() bool {
	return k.Meta.Key == "l4proto" || k.Payload.Protocol == "ip" && k.Payload.Field == "protocol" || k.Payload.Protocol == "ip6" && k.Payload.Field == "nexthdr"
}

// right returns the right-hand side of a comparison, or the elements of the set or map that it names.
func (all *ruleset) right(r *nftRule, value json.RawMessage) json.RawMessage {
	var name string
	if json.Unmarshal(value, &name) != nil || !strings.HasPrefix(name, "@") {
		return value
	}
	for _, o := range all.Objects {
		for _, s := range []*nftSet{o.Set, o.Map} {
			if s != nil && s.Family == r.Family && s.Table == r.Table && s.Name == name[1:] {
				text, _ := json.Marshal(map[string]any{"set": s.Elem}) // it was read from JSON, so this cannot fail
				return text
			}
		}
	}
	return value
}

// elements returns the elements of a set or a map.
func elements(value json.RawMessage) []json.RawMessage {
	var of struct {
		Set []json.RawMessage `json:"set"`
	}
	_ = json.Unmarshal(value, &of) // an unreadable value has no elements
	return of.Set
}

// isUDP reports whether a value is the protocol UDP.
func isUDP(value json.RawMessage) bool { return string(value) == `"udp"` || string(value) == "17" }

// isPort reports whether a value is the port, or a range that contains it.
func isPort(port uint16) func(json.RawMessage) bool {
	return func(value json.RawMessage) bool {
		var of struct {
			Range []uint16 `json:"range"`
		}
		if json.Unmarshal(value, &of) == nil && len(of.Range) == 2 {
			return of.Range[0] <= port && port <= of.Range[1]
		}
		return string(value) == decimal(port) || string(value) == `"*"` // the wildcard of a map matches last
	}
}

func decimal(port uint16) string { return strconv.Itoa(int(port)) }

// holds reports whether a value, or an element of a set, matches, and whether it can be read.
func holds(value json.RawMessage, is func(json.RawMessage) bool) (met, read bool) {
	var with struct {
		Elem struct { // an element with a time-out, a counter or a comment
			Val json.RawMessage `json:"val"`
		} `json:"elem"`
		Set    []json.RawMessage `json:"set"`
		Concat json.RawMessage   `json:"concat"`
	}
	if json.Unmarshal(value, &with) == nil {
		switch {
		case with.Elem.Val != nil:
			return holds(with.Elem.Val, is)
		case with.Concat != nil:
			return false, false
		}
	}
	for _, e := range with.Set {
		if met, _ := holds(e, is); met {
			return true, true
		}
	}
	return is(value), !strings.HasPrefix(string(value), `"@`)
}

// compare reports whether a comparison with a port is true, and whether it can be read.
func compare(value json.RawMessage, op string, port uint16) (met, read bool) {
	met, read = holds(value, isPort(port))
	var than int
	known := json.Unmarshal(value, &than) == nil
	switch at := int(port); op {
	case "==":
		return met, read
	case "!=":
		return !met, read
	case "<":
		return at < than, known
	case "<=":
		return at <= than, known
	case ">":
		return at > than, known
	case ">=":
		return at >= than, known
	}
	return false, false
}
