package nd

import "github.com/ndxdp/ndxdp/provider"

// Who runs what (verbs.Adapter): an adapter has one engine for every receive queue of its interface.

// do runs f as the owner of the leading engine, where everything is made.
func (a *Adapter) do(f func(*provider.Engine)) { a.verbs.Do(f) }

// call is do for what a closed adapter refuses.
func (a *Adapter) call(f func(*provider.Engine) provider.Outcome) provider.Outcome {
	return a.verbs.Call(f)
}

// do runs f as the owner of the connector, wherever that is at home.
func (c *Connector) do(f func(*provider.Engine)) { c.k.Own(f) }
