package host

import "github.com/ndxdp/ndxdp/provider"

// connectionChunk is how many connections are copied while an engine is kept from its work: some microseconds.
const connectionChunk = 64

// Connections copies what all connections do. One that moves from engine to engine meanwhile may be missing.
func (a *Adapter) Connections() (all []provider.ConnInfo) {
	chunk := make([]provider.ConnInfo, connectionChunk)
	seen := map[uint64]struct{}{}
	for _, shard := range a.Shards {
		for first, done := 0, false; !done; {
			n := 0
			shard.Do(func(e *provider.Engine) { n, first, done = e.Connections(chunk, first) })
			for _, c := range chunk[:n] {
				if _, twice := seen[c.ID]; !twice {
					seen[c.ID] = struct{}{}
					all = append(all, c)
				}
			}
		}
	}
	return all
}
