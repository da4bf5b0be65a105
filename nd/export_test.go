package nd

import "github.com/ndxdp/ndxdp/provider"

// Stall runs f while the leading engine of the adapter stands still.
func (a *Adapter) Stall(f func()) { a.do(func(*provider.Engine) { f() }) }

// Relayed is how many packets the other engines had for another one. It may be called by f of Stall.
func (a *Adapter) Relayed() (n uint64) {
	for _, s := range a.verbs.Shards[1:] {
		s.Do(func(e *provider.Engine) { n += e.Stats().Relayed })
	}
	return n
}

// knownMRFlags are all rights that Register takes.
const knownMRFlags = MRAllowLocalWrite | MRAllowRemoteRead | MRAllowRemoteWrite | MRReadSink | MRDoNotSecureVM
