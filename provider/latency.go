package provider

import (
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// This file samples where the time of a request goes: one request of a connection at a time, and at most one every
// sampleGap, so that the two clock reads that a sample costs do not show.

// sampleGap is the least time from one sample of a connection to the next.
const sampleGap = time.Millisecond

// sampleWeight is that of a new sample, as a right shift.
const sampleWeight = 3

// Latency is where the time of initiator requests goes, as weighted means of samples that favour the newest. Zero means that there
// was no sample since the connection was last idle.
type Latency struct {
	Queueing   time.Duration // from post until the turn of the engine that transmits its first packet
	Wire       time.Duration // from then until its last acknowledgement, or the answer to a READ, without Hold
	Hold       time.Duration // how long the peer held that back (PROTOCOL §3.1); for a READ this contains making the answer
	Completion time.Duration // from the result until the application fetches it; of the completion queue
}

type sampleState uint8

const (
	sampleNone  sampleState = iota
	sampleArmed             // the next poster takes the time
	sampleSent              // under way
)

// latencySample is the request that is watched, and what earlier ones told.
type latencySample struct {
	latency Latency
	nextAt  clock.Time
	sentAt  clock.Time
	trip    time.Duration // the newest round trip, without the time that the peer held it
	seq     uint32        // in the initiator queue
	state   sampleState
}

// States of a postSample.
const (
	postIdle   = iota
	postWanted // the engine wants to know when the next request is posted
	postTaken
)

// postSample is how a poster tells the engine when it posted. The engine writes clock before it asks, the poster the rest
// before it answers.
type postSample struct {
	state atomic.Uint32
	clock clock.Source
	at    clock.Time
	seq   uint32
}

// record notes the time of the request at seq. The poster calls it, with the queue's lock.
func (p *postSample) record(seq uint32) {
	p.at, p.seq = p.clock(), seq
	p.state.Store(postTaken)
}

// watchSample begins a sample when it is time for one, and notes that the one that was posted has left.
func (c *conn) watchSample() {
	e, s := c.engine, &c.sample
	if s.state == sampleSent || s.state == sampleNone && (e.now < s.nextAt || e.clock == nil) || c.qp == nil {
		return
	}
	p := &c.qp.sq.sample
	if s.state == sampleNone {
		// What was asked for before the connection was idle, or by an earlier connection of the queue pair, is still asked for.
		s.state = sampleArmed
		if p.state.Load() == postIdle {
			p.clock = e.clock
			p.state.Store(postWanted)
		}
		return
	}
	if p.state.Load() != postTaken {
		return
	}
	if q := &c.qp.sq; int32(q.head.Load()-p.seq) > 0 { // it was over before we looked
		c.disarm()
	} else if q.next != p.seq || q.off > 0 {
		if int32(q.next-p.seq) < 0 {
			return // it waits
		}
		s.state, s.seq, s.sentAt, s.trip = sampleSent, p.seq, e.now, 0
		fold(&s.latency.Queueing, e.now.Sub(p.at))
	}
}

// disarm ends a sample.
func (c *conn) disarm() {
	c.qp.sq.sample.state.Store(postIdle)
	c.sample.state, c.sample.nextAt = sampleNone, c.engine.now.Add(sampleGap)
}

// endSample takes in that the watched request is done. The echo in the packet that said so tells how long the peer held ours:
// what passed since it left, but for the round trip.
func (c *conn) endSample() {
	e, s, qp := c.engine, &c.sample, c.qp
	wr := qp.sq.wr(s.seq)
	whole := e.now.Sub(s.sentAt)
	hold := time.Duration(0)
	if sp := &c.tx[0]; s.trip > 0 && uint32(sp.next.Sub(wr.lastPSN)) <= uint32(len(sp.records)) {
		hold = min(max(e.now.Sub(sp.record(wr.lastPSN).at)-s.trip, 0), whole)
	}
	fold(&s.latency.Wire, whole-hold)
	fold(&s.latency.Hold, hold)
	if wr.flags&FlagSilentSuccess == 0 {
		e.watchResult(qp.initCQ)
	}
	c.disarm()
}

// fold takes a sample into a mean.
func fold(mean *time.Duration, d time.Duration) {
	d = max(d, 1)
	if *mean == 0 {
		*mean = d
		return
	}
	*mean += (d - *mean) >> sampleWeight
}

// resultSample is the newest result when a completion queue's engine last looked: how long until it is fetched. The engine
// writes clock and since before watched, the consumer the mean before it clears that.
type resultSample struct {
	watched atomic.Uint32 // index after the result; zero when none is watched
	clock   clock.Source
	since   clock.Time
	mean    time.Duration // the consumer's
	shown   atomic.Int64  // mean, for others
}

// watchResult watches the newest result, unless one is watched.
func (e *Engine) watchResult(q *CQ) {
	if q.several {
		q.producing.Lock()
		defer q.producing.Unlock()
	}
	if after := q.tail.Load() + q.pending; q.watched.Load() == 0 && after != 0 {
		q.clock, q.since = e.clock, e.now
		q.watched.Store(after)
	}
}

// fetchedWatched notes that the watched result was fetched. The consumer calls it.
func (q *CQ) fetchedWatched() {
	fold(&q.mean, q.clock().Sub(q.since))
	q.shown.Store(int64(q.mean))
	q.watched.Store(0)
}
