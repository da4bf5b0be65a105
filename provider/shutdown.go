package provider

import (
	"maps"
	"slices"

	"github.com/ndxdp/ndxdp/provider/internal/link"
)

// cutOff disconnects an engine that may be broken from the network, so that ending it only changes its own state.
func (e *Engine) cutOff() {
	e.link = link.Cut{}
	e.out.CutOff(link.Cut{})
	e.received.CutOff(link.Cut{})
}

// Shutdown ends the engine, because the adapter closes. Listeners refuse, pending requests end with DEVICE_REMOVED, and open
// connections are aborted with a notice to their peers. Connections that move to this engine later are aborted, too. With several
// engines, the leader is shut down last.
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
	e.report() // no later poll may do it
}

// remove closes a connector because the adapter has ended.
func (k *Connector) remove() {
	k.finish(OutcomeDeviceRemoved)
	k.notifyAll(OutcomeDeviceRemoved)
	k.Close()
}
