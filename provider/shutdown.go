package provider

import (
	"maps"
	"slices"
)

// Shutdown ends everything of this engine for good, as the adapter closes: listeners refuse, pending requests finish
// DEVICE_REMOVED, open connections are cut off and their peers told. With several engines the leader is shut down last.
func (e *Engine) Shutdown() {
	e.takeCalls()
	for _, l := range e.listeners {
		l.CancelRequests(OutcomeDeviceRemoved)
		l.Close()
	}
	for c := range e.group.conns.all {
		if c.home.Load() != e || c.connector == nil {
			continue
		}
		c.connector.remove()
	}
	e.group.mu.Lock()
	qps := slices.Collect(maps.Keys(e.group.qps))
	e.group.mu.Unlock()
	for _, qp := range qps {
		if qp.home.Load() != e {
			continue
		}
		if qp.seeker != nil {
			qp.seeker.remove()
		}
		e.ReleaseQP(qp)
	}
}

// remove closes a connector because the adapter is gone.
func (k *Connector) remove() {
	if fin := k.pending; fin != nil {
		k.pending = nil
		fin(OutcomeDeviceRemoved)
	}
	k.notifyAll(OutcomeDeviceRemoved)
	k.Close()
}
