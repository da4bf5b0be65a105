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
		k := c.connector
		if fin := k.pending; fin != nil {
			k.pending = nil
			fin(OutcomeDeviceRemoved)
		}
		k.notifyAll(OutcomeDeviceRemoved)
		k.Close()
	}
	e.group.mu.Lock()
	qps := slices.Collect(maps.Keys(e.group.qps))
	e.group.mu.Unlock()
	for _, qp := range qps {
		if qp.home.Load() == e {
			e.ReleaseQP(qp)
		}
	}
}
