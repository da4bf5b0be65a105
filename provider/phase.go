package provider

import "github.com/ndxdp/ndxdp/provider/internal/lifetime"

// phase is where a connection stands on the wire; package lifetime says what may follow what.
type phase = lifetime.Phase

const (
	phaseFree      = lifetime.Free
	phaseReqSent   = lifetime.ReqSent
	phaseAccepted  = lifetime.Accepted
	phaseRtuSent   = lifetime.RtuSent
	phaseHalfOpen  = lifetime.HalfOpen
	phaseRepSent   = lifetime.RepSent
	phaseOpen      = lifetime.Open
	phaseLingering = lifetime.Lingering
)

// enter changes where the connection stands on the wire, and tells who counts that. A phase that may not follow is counted and refused. Each
// phase has deadlines of its own. The traffic of a connection that is over is given back at the end of the turn, when no work on it is
// under way.
func (c *conn) enter(p phase) {
	e, from := c.engine, c.phase
	c.touch()
	if !c.phase.Enter(p) {
		e.stats.IllegalTransitions++
		return
	}
	e.flight.Note(e.now, FlightState, c.identity.id, uint32(from), uint32(p))
	switch {
	case from == phaseOpen:
		e.limitTotals.Exit(e.now, c.traffic.limit())
	case p == phaseOpen:
		e.limitTotals.Enter(e.now, c.traffic.limit())
	}
	switch {
	case p == phaseReqSent:
		e.directory.ask(c)
	case from == phaseReqSent:
		e.directory.answered(c)
		c.handshake.ForgetLeft(e.forget)
	}
}
