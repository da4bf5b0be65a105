package nd

import "github.com/ndxdp/ndxdp/provider"

// Stall runs f while the leading engine of the adapter does not run.
func (a *Adapter) Stall(f func()) { a.do(func(*provider.Engine) { f() }) }

// Relayed is how many packets the other engines forwarded to another engine. It may be called in f of Stall.
func (a *Adapter) Relayed() (n uint64) {
	for _, s := range a.verbs.Shards[1:] {
		s.Do(func(e *provider.Engine) { n += e.Stats().Relayed })
	}
	return n
}

// knownMRFlags are all rights that Register accepts.
const knownMRFlags = MRAllowLocalWrite | MRAllowRemoteRead | MRAllowRemoteWrite | MRReadSink | MRDoNotSecureVM
