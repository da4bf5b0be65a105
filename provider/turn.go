package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/link"
)

// This file is the order in which an engine does its work: a turn.

// starvedRetry is when to look again for transmit frames: the link has no way to tell when they come back.
const starvedRetry = 20 * time.Microsecond

// Run does one turn: receive, timers, doorbells, transmit, acknowledge, report. It allocates nothing and reads no clock (I10). It returns true when more work is ready
// at once; otherwise the engine wants to be run when the link has packets, a doorbell was rung, or NextDeadline came.
func (e *Engine) Run(now clock.Time) (busy bool) { return e.sendAndReport(e.receiveAll(now), false) }

// Glance is Run for a poller. If few packets arrived and nothing has to be sent for them, it returns their results and defers the rest of
// the poll to the next one. The next poll comes when the poller looks again, or with its answer, which leaves before the rest is done.
// Streams beside connections that send little are deferred in the same way.
func (e *Engine) Glance(now clock.Time) (busy bool) {
	again := e.putOff
	heard := e.receiveAll(now)
	if again || heard == 0 || heard >= manyPackets || e.round.waiting() > 0 && !e.round.shares.Mixed(now) || e.inbox.rung() {
		return e.sendAndReport(heard, false)
	}
	e.putOff = true
	e.report()
	return true
}

// Serve is Run for a poster: what it posted leaves first, and what came meanwhile is left to the next turn.
func (e *Engine) Serve(now clock.Time, qp *QP) (busy bool) {
	e.beginTurn(now)
	qp.answer(e)
	e.sendShares(true)
	e.flush()
	return e.sendAndReport(0, true)
}

// catchUp does what Glance put off.
func (e *Engine) catchUp() {
	if e.putOff {
		e.sendAndReport(0, false)
	}
}

// manyPackets in one batch mean that the peers send faster than the engine looks.
const manyPackets = link.RxBatch / 4

// beginTurn moves the engine's time on, and begins to count what the turn sends.
func (e *Engine) beginTurn(now clock.Time) {
	e.turns.Begin(e.now, now)
	e.now = now
	e.out.BeginTurn()
}

// receiveAll is the first half of a turn: it takes in what arrived, and says how many packets that was.
func (e *Engine) receiveAll(now clock.Time) (heard int) {
	e.beginTurn(now)
	e.turns.Look(now)
	if e.inbox.waiting.Load() {
		heard = e.openInbox()
	}
	batch := e.received.Receive()
	for i := range batch {
		e.stats.Arrive(batch[i].Len, batch[i].Bulk)
		e.receive(&batch[i])
	}
	sendOutbox(e)
	e.received.Flush()
	return heard + len(batch)
}

// sendAndReport is the second half of a turn: timers, what has to be sent, and results.
func (e *Engine) sendAndReport(heard int, post bool) (busy bool) {
	if heard > 0 || e.putOff {
		if heard >= manyPackets || e.received.Load() > 0 || e.store.Used() > 0 {
			e.received.MeasureLoad(e.store.Used(), e.store.Limit()) // few packets in the ring are no load
		}
		e.heard.conclude(e.controller, &e.turns, e.now)
		e.putOff = false
	}
	e.timers.expire(&e.group.conns, e.now)
	if e.results.Moderating() {
		e.results.Tell(e.now)
	}
	if len(e.heard.conns) > 0 {
		e.heard.conclude(e.controller, &e.turns, e.now) // timers find losses, too
	}
	if due, ok := e.backlog.Waiting(); ok && e.now >= due {
		e.backlog.Push(e.now)
	}
	if e.inbox.rung() {
		e.inbox.answerDoorbells(e)
	}
	if e.round.waiting() > 0 {
		e.sendShares(post)
	}
	if len(e.acks.conns) > 0 {
		e.acks.send()
	}
	e.finishTurn()
	return heard >= link.RxBatch || (e.round.waiting() > 0 || len(e.acks.conns) > 0) && !e.out.Starved() || e.inbox.rung() || e.turns.Sent() ||
		e.inbox.waiting.Load()
}

// idle reports whether a turn would find nothing to do but timers.
func (e *Engine) idle() bool {
	return !e.turns.Sent() && !e.putOff && e.round.waiting() == 0 && len(e.acks.conns) == 0 && !e.inbox.rung() && !e.link.Ready() && !e.inbox.waiting.Load()
}

// finishTurn makes visible what the turn, or a call from the owner, did.
func (e *Engine) finishTurn() {
	e.flush()
	for i, c := range e.timers.touched {
		c.places.touched = false
		e.timers.touched[i] = nil
		switch {
		case c.phase == phaseFree:
			c.enterIdle()
			continue
		case c.phase == phaseLingering && !c.places.inAcks, onlyAsked(c):
			c.enterIdle()
		}
		e.timers.deadlines.Set(c.identity.slot, c.deadline())
		if c.misrouted.target != 0 {
			c.handOver()
		}
	}
	e.timers.touched = e.timers.touched[:0]
	sendOutbox(e)
	e.report()
}

// report shows applications what completed.
func (e *Engine) report() {
	e.writes.Settle()
	for q := e.results.Report(e.now); q != nil; q = e.results.Report(e.now) {
		for _, u := range q.Users() {
			u.(*QP).overran(e)
		}
	}
}

// NextDeadline returns when the engine wants to be run even if nothing happens.
func (e *Engine) NextDeadline() clock.Time {
	if e.out.Starved() {
		return e.now.Add(starvedRetry)
	}
	next := e.timers.deadlines.Next()
	if e.results.Moderating() {
		next = min(next, e.results.Due())
	}
	if due, ok := e.backlog.Waiting(); ok {
		next = min(next, due)
	}
	return next
}
