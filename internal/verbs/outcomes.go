package verbs

import "github.com/ndxdp/ndxdp/provider"

// Causes that are found without an engine, in addition to those of package provider. A surface maps both in one table.
const (
	OutcomeWrongArgument  = provider.Outcome(128 + iota) // beyond a limit, or inconsistent
	OutcomeWrongFlags                                    // wrong flags of a registration
	OutcomeEmpty                                         // no bytes to register
	OutcomeWrongQueuePair                                // none, or another adapter's
	OutcomeNoAddress                                     // an invalid address
	OutcomeWrongFamily                                   // an address of another family than the adapter's
	OutcomeWrongAddress                                  // an address that the adapter, or the machine, does not have
	OutcomeOutside                                       // bytes that are no part of the region
	OutcomeNoMemory                                      // the machine has no memory left to pin or map
	OutcomeNotReady                                      // an adapter cannot be opened
)

// Statuses converts a surface's map of statuses by outcome into an array, because a map is too slow for the fast path. Outcomes that
// are not in the map become other.
func Statuses[S any](by map[provider.Outcome]S, other S) (t [256]S) {
	for i := range t {
		t[i] = other
	}
	for o, s := range by {
		t[o] = s
	}
	return t
}
