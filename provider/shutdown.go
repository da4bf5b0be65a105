package provider

import (
	"maps"
	"slices"

	"github.com/ndxdp/ndxdp/provider/internal/link"
)

// cutOff keeps an engine that may be broken from the network, so that ending it touches nothing but its own state.
func (e *Engine) cutOff() {
	e.link = link.Cut{}
	e.out.CutOff(link.Cut{})
	e.received.CutOff(link.Cut{})
}

// Shutdown ends everything of this engine for good, as the adapter closes: listeners refuse, pending requests finish
// DEVICE_REMOVED, open connections are cut off and their peers told, also those that come later. With several engines the leader is shut down last.
func (e *Engine) Shutdown() {
	e.inbox.over = true
	e.inbox.runCalls(e)
	for _, l := range e.directory.listeners {
		l.CancelRequests(OutcomeDeviceRemoved)
		l.Close()
	}
	for c := range e.group.conns.all {
		if c.home.Load() == e && c.connector != nil {
			c.connector.remove()
		}
	}
	e.group.mu.Lock()
	qps := slices.Collect(maps.Keys(e.group.qps))
	e.group.mu.Unlock()
	for _, qp := range qps {
		if qp.home.Load() == e {
			if qp.seeker != nil {
				qp.seeker.remove()
			}
			qp.Release()
		}
	}
	e.report() // there may be no turn that does
}

// remove closes a connector because the adapter is gone.
func (k *Connector) remove() {
	k.finish(OutcomeDeviceRemoved)
	k.notifyAll(OutcomeDeviceRemoved)
	k.Close()
}
