package verbs

import (
	"math/bits"

	"github.com/ndxdp/ndxdp/provider"
)

// Do runs f as the owner of the leading engine. f must not block, here and in the methods below.
func (a *Adapter) Do(f func(*provider.Engine)) { a.Shards[0].Do(f) }

// DoAll runs f as the owner of all engines at once. It is the only function that waits for an engine while owning another (provider, I2).
func (a *Adapter) DoAll(f func()) {
	for _, s := range a.Shards {
		inner := f
		f = func() { s.Do(func(*provider.Engine) { inner() }) }
	}
	f()
}

// UnlessClosed makes f refuse if the adapter is closed. Close marks the adapter before it shuts the engines down, for which it must own
// them. So f cannot start anything that Close would miss.
func (a *Adapter) UnlessClosed(o *provider.Outcome, f func(*provider.Engine) provider.Outcome) func(*provider.Engine) {
	return func(e *provider.Engine) {
		if *o = provider.OutcomeDeviceRemoved; !a.Closed() {
			*o = f(e)
		}
	}
}

// Call is Do for calls that a closed adapter refuses.
func (a *Adapter) Call(f func(*provider.Engine) provider.Outcome) (o provider.Outcome) {
	a.Do(a.UnlessClosed(&o, f))
	return o
}

// CallAll is DoAll for calls that a closed adapter refuses.
func (a *Adapter) CallAll(f func() provider.Outcome) (o provider.Outcome) {
	a.DoAll(func() {
		if o = provider.OutcomeDeviceRemoved; !a.Closed() {
			o = f()
		}
	})
	return o
}

// Poll polls every engine that reports to the completion queue. If a goroutine waits for a notification, the background goroutine keeps
// running. Otherwise a program that looks once and then relies on the notification would wait until the lack of polls is noticed. told
// reports whether calls of other goroutines ended.
func (a *Adapter) Poll(q *provider.CQ) (told bool) {
	poll := (*provider.Shard).Poll
	if q.Armed() {
		poll = (*provider.Shard).Look
	}
	for homes := q.Homes(); homes != 0; homes &= homes - 1 {
		told = poll(a.Shards[bits.TrailingZeros64(homes)]) || told
	}
	return told
}

// Release tells the engines that report to the completion queue that their poller is about to sleep.
func (a *Adapter) Release(q *provider.CQ) {
	for homes := q.Homes(); homes != 0; homes &= homes - 1 {
		a.Shards[bits.TrailingZeros64(homes)].Release()
	}
}

// ReleaseAll is Release for all engines.
func (a *Adapter) ReleaseAll() {
	for _, s := range a.Shards {
		s.Release()
	}
}

// passOn lets a goroutine that sleeps in Sleep wait for packets, if the last goroutine that did so has closed its completion queue. Where
// there are several engines, their progress goroutines wait for packets.
func (a *Adapter) passOn() {
	if len(a.Shards) > 1 {
		a.ReleaseAll()
		return
	}
	a.Shards[0].PassOn()
}

// Sleep sleeps until w has ended, and reports whether it has, or until Interrupt is called. It is for operations that are rare, for
// example connecting. While CQ.Sleep runs, that call waits for the packets.
func (a *Adapter) Sleep(w *provider.Wait) (ended bool) {
	if len(a.Shards) > 1 {
		return w.Await() // the connection may move to another engine
	}
	w.Patient = true
	return a.Shards[0].Sleep(w)
}
