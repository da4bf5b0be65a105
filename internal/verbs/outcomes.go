package verbs

import "github.com/ndxdp/ndxdp/provider"

// Statuses makes an array of a surface's statuses by outcome, for the fast path, which cannot look into a map; other is for outcomes
// that are not in the map.
func Statuses[S any](by map[provider.Outcome]S, other S) (t [256]S) {
	for i := range t {
		t[i] = other
	}
	for o, s := range by {
		t[o] = s
	}
	return t
}
