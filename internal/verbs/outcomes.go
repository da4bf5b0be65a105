package verbs

import "github.com/ndxdp/ndxdp/provider"

// Causes that need no engine to be found, beside those of package provider. A surface maps both in one table.
const (
	OutcomeWrongArgument  = provider.Outcome(128 + iota) // beyond a limit, or what makes no sense
	OutcomeWrongFlags                                    // of a registration
	OutcomeEmpty                                         // no bytes to register
	OutcomeWrongQueuePair                                // none, or another adapter's
	OutcomeNoAddress                                     // an address that is none
	OutcomeWrongFamily                                   // an address of another family than the adapter's
	OutcomeWrongAddress                                  // an address that the adapter, or the machine, does not have
	OutcomeOutside                                       // bytes that are no part of the region
	OutcomeNoMemory                                      // the machine has none left that may be pinned or mapped
	OutcomeNotReady                                      // an adapter cannot be opened
)

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
