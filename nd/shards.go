package nd

import (
	"math/bits"

	"github.com/ndxdp/ndxdp/provider"
)

// An adapter has one engine for every receive queue of its interface, each with a shard that runs it. The first one leads:
// it knows ports and listeners, and everything is made on it. Connectors and queue pairs move with their connection.

// do runs f as the owner of the leading engine.
func (a *Adapter) do(f func(*provider.Engine)) { a.shards[0].Do(f) }

// doAll runs f as the owner of all engines at once. Nobody else waits for one while owning another (provider, I2).
func (a *Adapter) doAll(f func()) {
	for _, s := range a.shards {
		inner := f
		f = func() { s.Do(func(*provider.Engine) { inner() }) }
	}
	f()
}

// unlessClosed makes f refuse when the adapter is closed. Closing marks the adapter before it shuts the engines down, which
// needs them too: nothing can be started here that the closing would miss.
func (a *Adapter) unlessClosed(o *provider.Outcome, f func(*provider.Engine) provider.Outcome) func(*provider.Engine) {
	return func(e *provider.Engine) {
		if *o = provider.OutcomeDeviceRemoved; !a.closed() {
			*o = f(e)
		}
	}
}

// callAll is doAll for what a closed adapter refuses.
func (a *Adapter) callAll(f func() provider.Outcome) (o provider.Outcome) {
	a.doAll(func() {
		if o = provider.OutcomeDeviceRemoved; !a.closed() {
			o = f()
		}
	})
	return o
}

// call is do for what a closed adapter refuses.
func (a *Adapter) call(f func(*provider.Engine) provider.Outcome) (o provider.Outcome) {
	a.do(a.unlessClosed(&o, f))
	return o
}

// do runs f as the owner of the connector.
func (c *Connector) do(f func(*provider.Engine)) { c.k.Own(f) }

// call is do for what a closed adapter refuses.
func (c *Connector) call(f func(*provider.Engine) provider.Outcome) (o provider.Outcome) {
	c.do(c.adapter.unlessClosed(&o, f))
	return o
}

// poll runs a turn of every engine that reports to the completion queue. While somebody waits in Notify the background keeps
// going: a program that looks once and then relies on Notify would else wait until it is noticed that nobody polls.
func (q *CompletionQueue) poll() {
	if q.cq.Armed() {
		for homes := q.cq.Homes(); homes != 0; homes &= homes - 1 {
			q.adapter.shards[bits.TrailingZeros64(homes)].Look()
		}
		return
	}
	for homes := q.cq.Homes(); homes != 0; homes &= homes - 1 {
		q.adapter.shards[bits.TrailingZeros64(homes)].Poll()
	}
}

// release tells the engines that report to the completion queue that its poller is about to sleep.
func (q *CompletionQueue) release() {
	for homes := q.cq.Homes(); homes != 0; homes &= homes - 1 {
		q.adapter.shards[bits.TrailingZeros64(homes)].Release()
	}
}
