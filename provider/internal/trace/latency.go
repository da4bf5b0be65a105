package trace

import (
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// This file samples the phases of a request's time: one request of a connection at a time, and at most one every SampleGap, so that the
// two clock reads of a sample do not matter.

// SampleGap is the least time from one sample of a connection to the next.
const SampleGap = time.Millisecond

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

// Sample is the request of a connection that is watched, and what earlier ones told. It belongs to the connection.
type Sample struct {
	latency Latency
	nextAt  clock.Time
	sentAt  clock.Time
	trip    time.Duration // the newest round trip, without the time that the peer held it
	seq     uint32        // in the initiator queue
	state   sampleState
}

// States of a PostSample.
const (
	postIdle   = iota
	postWanted // the engine wants to know when the next request is posted
	postTaken
)

// PostSample is how a poster tells the engine when it posted. The engine writes clock before it asks, the poster the rest
// before it answers. It is part of a queue of requests.
type PostSample struct {
	state atomic.Uint32
	clock clock.Source
	at    clock.Time
	seq   uint32
}

// Record notes the time of the request at seq, if the engine wants to know it. The poster calls it, with the queue's lock.
func (p *PostSample) Record(seq uint32) {
	if p.state.Load() == postWanted {
		p.at, p.seq = p.clock(), seq
		p.state.Store(postTaken)
	}
}

// Latency is what the samples told.
func (s *Sample) Latency() Latency { return s.latency }

// Due says whether Watch has something to do now.
func (s *Sample) Due(now clock.Time) bool {
	return s.state == sampleArmed || s.state == sampleNone && now >= s.nextAt
}

// Watch begins a sample, and notes that the posted sample has been taken. source is the clock of posters. Requests of the queue from
// head on are not done. The next byte to send is at off of the request next.
func (s *Sample) Watch(now clock.Time, source clock.Source, p *PostSample, head, next, off uint32) {
	if s.state == sampleNone {
		// A sample that was requested before the connection was idle, or by an earlier connection of the queue pair, is still wanted.
		s.state = sampleArmed
		if p.state.Load() == postIdle {
			p.clock = source
			p.state.Store(postWanted)
		}
		return
	}
	if p.state.Load() != postTaken {
		return
	}
	if int32(head-p.seq) > 0 { // it was over before we looked
		s.disarm(now, p)
	} else if next != p.seq || off > 0 {
		if int32(next-p.seq) < 0 {
			return // it waits
		}
		s.state, s.seq, s.sentAt, s.trip = sampleSent, p.seq, now, 0
		fold(&s.latency.Queueing, now.Sub(p.at))
	}
}

// disarm ends a sample.
func (s *Sample) disarm(now clock.Time, p *PostSample) {
	p.state.Store(postIdle)
	s.state, s.nextAt = sampleNone, now.Add(SampleGap)
}

// Trip takes in the newest round trip, without the time that the peer held it.
func (s *Sample) Trip(d time.Duration) {
	if s.state == sampleSent {
		s.trip = d
	}
}

// Done says whether a request is being sampled, and returns its number. It is done when the requests before head are.
func (s *Sample) Done(head uint32) (seq uint32, ok bool) {
	return s.seq, s.state == sampleSent && int32(head-s.seq) > 0
}

// End handles the end of the sampled request. The delay in the ACK block says how long the peer held this side's packet: the time since
// its last packet left, without the round trip. last is when that packet left, or zero if unknown. It returns how long the request took
// from its post.
func (s *Sample) End(now clock.Time, p *PostSample, last clock.Time) (sincePost time.Duration) {
	whole := now.Sub(s.sentAt)
	hold := time.Duration(0)
	if s.trip > 0 && last != 0 {
		hold = min(max(now.Sub(last)-s.trip, 0), whole)
	}
	fold(&s.latency.Wire, whole-hold)
	fold(&s.latency.Hold, hold)
	sincePost = now.Sub(p.at)
	s.disarm(now, p)
	return sincePost
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

// ResultSample is the newest result when a completion queue's engine last looked: how long until it is fetched. The engine
// writes clock and since before watched, the consumer the mean before it clears that.
type ResultSample struct {
	watched atomic.Uint32 // index after the result; zero when none is watched
	clock   clock.Source
	since   clock.Time
	mean    time.Duration // the consumer's
	shown   atomic.Int64  // mean, for others
}

// Watch watches the newest result, whose index is before after, unless one is watched. The engine calls it.
func (r *ResultSample) Watch(after uint32, source clock.Source, now clock.Time) {
	if r.watched.Load() == 0 && after != 0 {
		r.clock, r.since = source, now
		r.watched.Store(after)
	}
}

// Fetched notes that the results before head were fetched. The consumer calls it.
func (r *ResultSample) Fetched(head uint32) {
	if w := r.watched.Load(); w != 0 && int32(head-w) >= 0 {
		r.fetched()
	}
}

func (r *ResultSample) fetched() {
	fold(&r.mean, r.clock().Sub(r.since))
	r.shown.Store(int64(r.mean))
	r.watched.Store(0)
}

// Mean is the mean time from a result until the application fetches it; zero before the first sample. Any goroutine may call it.
func (r *ResultSample) Mean() time.Duration { return time.Duration(r.shown.Load()) }
