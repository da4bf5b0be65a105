package nd

import "github.com/ndxdp/ndxdp/provider"

// An adapter has one engine for every receive queue of its interface; see verbs.Adapter for the
// owners of objects.

// do runs f as the owner of the leading engine, where all objects are made.
func (a *Adapter) do(f func(*provider.Engine)) { a.verbs.Do(f) }

// call is do for calls that a closed adapter refuses.
func (a *Adapter) call(f func(*provider.Engine) provider.Outcome) provider.Outcome {
	return a.verbs.Call(f)
}

// do runs f as the owner of the engine that has the connector.
func (c *Connector) do(f func(*provider.Engine)) { c.k.Own(f) }
