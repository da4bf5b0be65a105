package trace

import (
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// This file samples the phases of a request's latency: one request of a connection at a time, and at most one per SampleGap, so
// that the cost of two clock reads does not matter.

// SampleGap is the least time between two samples of a connection.
const SampleGap = time.Millisecond

// sampleWeight is the weight of a new sample, as a right shift.
const sampleWeight = 3

// Latency divides the latency of initiator requests into phases. Each is a weighted mean of samples that favours the newest. Zero
// means no sample after the connection was last idle.
type Latency struct {
	Queueing   time.Duration // from the post to the poll that transmits its first packet
	Wire       time.Duration // from there to its last acknowledgement, or the answer to a READ, without Hold
	Hold       time.Duration // time that the peer held the acknowledgement (PROTOCOL §3.1); for a READ this includes building the answer
	Completion time.Duration // from the result to its fetch by the application; measured for the completion queue
}

type sampleState uint8

const (
	sampleNone  sampleState = iota
	sampleArmed             // the next poster records the time
	sampleSent              // the request is in progress
)

// Sample is the sampling state of a connection, including the means. The connection owns it.
type Sample struct {
	latency Latency
	nextAt  clock.Time
	sentAt  clock.Time
	trip    time.Duration // newest round trip, without the time that the peer held the packet
	seq     uint32        // index in the initiator queue
	state   sampleState
}

// States of a PostSample.
const (
	postIdle   = iota
	postWanted // the engine requests the time of the next post
	postTaken
)

// PostSample passes the time of a post to the engine. The engine writes clock before it requests a sample. The poster writes all
// other fields before it answers. It is part of a queue of requests.
type PostSample struct {
	state atomic.Uint32
	clock clock.Source
	at    clock.Time
	seq   uint32
}

// Record records the time of the request at seq, if the engine requested it. The poster calls it with the queue's lock held.
func (p *PostSample) Record(seq uint32) {
	if p.state.Load() == postWanted {
		p.at, p.seq = p.clock(), seq
		p.state.Store(postTaken)
	}
}

// Latency returns the means of the samples.
func (s *Sample) Latency() Latency { return s.latency }

// Due reports whether to call Measure now.
func (s *Sample) Due(now clock.Time) bool {
	return s.state == sampleArmed || s.state == sampleNone && now >= s.nextAt
}

// Measure begins a sample, and handles one that the poster has recorded. source is the clock of posters. Requests from index head on
// are not complete. The next byte to send is at offset off of request next.
func (s *Sample) Measure(now clock.Time, source clock.Source, p *PostSample, head, next, off uint32) {
	if s.state == sampleNone {
		// A sample that was requested before the connection was idle, or by an earlier connection of the queue pair, is still
		// wanted.
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
	if int32(head-p.seq) > 0 { // it was complete before this call
		s.disarm(now, p)
	} else if next != p.seq || off > 0 {
		if int32(next-p.seq) < 0 {
			return // it waits for the window
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

// Trip records the newest round trip, without the time that the peer held the packet.
func (s *Sample) Trip(d time.Duration) {
	if s.state == sampleSent {
		s.trip = d
	}
}

// Done returns the index of the sampled request if it is complete. Requests before head are complete.
func (s *Sample) Done(head uint32) (seq uint32, ok bool) {
	return s.seq, s.state == sampleSent && int32(head-s.seq) > 0
}

// End handles the end of the sampled request. The ACK delay is how long the peer held the packet: the time after its last packet
// left, minus the round trip. last is when this packet left, or zero if unknown. End returns the latency from the post.
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

// fold adds a sample to a mean.
func fold(mean *time.Duration, d time.Duration) {
	d = max(d, 1)
	if *mean == 0 {
		*mean = d
		return
	}
	*mean += (d - *mean) >> sampleWeight
}

// ResultSample measures how long the newest result of a completion queue waits to be fetched. The engine writes clock and since
// before watched. The consumer writes the mean before it clears watched.
type ResultSample struct {
	watched atomic.Uint32 // index after the sampled result; zero if there is none
	clock   clock.Source
	since   clock.Time
	mean    time.Duration // written by the consumer
	shown   atomic.Int64  // mean, for other goroutines
}

// Measure begins to sample the newest result, which is before index after, unless a sample is pending. The engine calls it.
func (r *ResultSample) Measure(after uint32, source clock.Source, now clock.Time) {
	if r.watched.Load() == 0 && after != 0 {
		r.clock, r.since = source, now
		r.watched.Store(after)
	}
}

// Fetched records that results before head were fetched. The consumer calls it.
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

// Mean returns the mean time from a result to its fetch, or zero before the first sample. Any goroutine may call it.
func (r *ResultSample) Mean() time.Duration { return time.Duration(r.shown.Load()) }
