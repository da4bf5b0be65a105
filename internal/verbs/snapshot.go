package verbs

import (
	"iter"

	"github.com/ndxdp/ndxdp/provider"
)

// connectionChunk is how many connections are copied while an engine is locked: some microseconds.
const connectionChunk = 64

// Connections yields the state of every connection. Each value is valid until the next one. A connection that moves between engines
// meanwhile may be missing.
func (a *Adapter) Connections() iter.Seq[*provider.ConnInfo] {
	return func(yield func(*provider.ConnInfo) bool) {
		chunk := make([]provider.ConnInfo, connectionChunk)
		seen := map[uint64]struct{}{} // with several engines: a connection that moved would appear twice
		for _, shard := range a.Shards {
			for first, done := 0, false; !done; {
				n := 0
				shard.Do(func(e *provider.Engine) { n, first, done = e.Connections(chunk, first) })
				for i := range chunk[:n] {
					c := &chunk[i]
					if _, twice := seen[c.ID]; twice {
						continue
					}
					if len(a.Shards) > 1 {
						seen[c.ID] = struct{}{}
					}
					if !yield(c) {
						return
					}
				}
			}
		}
	}
}
