package trace

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// rig has the samples of a connection, of its queue and of its completion queue, on one clock.
type rig struct {
	Sample
	post   PostSample
	result ResultSample
	now    clock.Time
	seq    uint32 // number of the next request
}

func (r *rig) clock() clock.Time { return r.now }

// watch is a poll of the engine: requests before head are done, and requests before next have left.
func (r *rig) watch(head, next uint32) {
	if r.Due(r.now) {
		r.Measure(r.now, r.clock, &r.post, head, next, 0)
	}
}

// request makes one request take the given time in each stage. The peer holds it for spent.Hold.
func (r *rig) request(spent Latency) {
	r.watch(r.seq, r.seq) // triggers the sample
	r.post.Record(r.seq)
	r.now = r.now.Add(spent.Queueing)
	r.watch(r.seq, r.seq) // the request waits in the queue
	r.watch(r.seq, r.seq+1)
	left := r.now
	r.now = r.now.Add(spent.Wire + spent.Hold)
	r.Trip(spent.Wire)
	r.seq++
	if _, ok := r.Done(r.seq); ok {
		r.End(r.now, &r.post, left)
		r.result.Measure(r.seq, r.clock, r.now)
	}
	r.now = r.now.Add(spent.Completion)
	r.result.Fetched(r.seq)
	r.now = r.now.Add(SampleGap)
}

// The time of each stage appears in that stage alone.
func TestSampleSplitsTime(t *testing.T) {
	const ms = time.Millisecond
	for _, spent := range []Latency{
		{1 * ms, 0, 0, 0}, {0, 2 * ms, 0, 0}, {0, ms, 3 * ms, 0}, {0, 0, 0, 4 * ms}, {1 * ms, 2 * ms, 3 * ms, 4 * ms},
	} {
		r := &rig{now: start}
		for range 5 {
			r.request(spent)
		}
		got := r.Latency()
		got.Completion = r.result.Mean()
		want := spent
		for _, d := range []*time.Duration{&want.Queueing, &want.Wire, &want.Hold, &want.Completion} {
			*d = max(*d, 1) // a stage without time differs from one without a sample
		}
		if spent.Wire == 0 {
			got.Hold, want.Hold = 0, 0 // without a round trip the hold time is unknown
		}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// A mean moves by an eighth of the difference with each sample.
func TestMeansFavourTheNewest(t *testing.T) {
	r := &rig{now: start}
	r.request(Latency{Queueing: 8 * time.Millisecond, Wire: 1})
	r.request(Latency{Queueing: 16 * time.Millisecond, Wire: 1})
	if got := r.Latency().Queueing; got != 9*time.Millisecond {
		t.Errorf("%v", got)
	}
}

// Samples are rare: the next request is sampled when SampleGap has passed after the end of the sample before.
func TestSamplesAreApart(t *testing.T) {
	r := &rig{now: start}
	r.request(Latency{Wire: 1})
	r.now = r.now.Add(-1)
	if r.Due(r.now) {
		t.Error("a sample is due too early")
	}
	r.watch(r.seq, r.seq)
	r.post.Record(r.seq)
	if _, ok := r.Done(r.seq + 1); ok || r.post.state.Load() != postIdle {
		t.Error("a request was watched too early")
	}
	if r.now = r.now.Add(1); !r.Due(r.now) {
		t.Error("no sample is due")
	}
}

// If a request ended before the engine saw it, there is no sample, and the next request is sampled after the gap.
func TestSampleThatWasOver(t *testing.T) {
	r := &rig{now: start}
	r.watch(0, 0)
	r.post.Record(0)
	r.watch(1, 1)
	if r.Latency() != (Latency{}) || r.Due(r.now) || r.post.state.Load() != postIdle {
		t.Errorf("%+v", r.Latency())
	}
	r.now = r.now.Add(SampleGap)
	r.seq = 1
	r.request(Latency{Wire: time.Millisecond})
	if r.Latency().Wire != time.Millisecond {
		t.Errorf("%+v", r.Latency())
	}
}

// A sample that a connection requested before it was idle is still taken afterwards.
func TestSampleOutlastsIdleTime(t *testing.T) {
	r := &rig{now: start}
	r.watch(0, 0)
	r.post.Record(0)
	r.Sample = Sample{} // as after an idle period
	r.watch(0, 0)
	r.now = r.now.Add(time.Millisecond)
	r.watch(0, 1)
	if r.Latency().Queueing != time.Millisecond {
		t.Errorf("%+v", r.Latency())
	}
}

// Without remembered packets there is no hold time. A hold time is never more than the total.
func TestHoldIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		last       clock.Time
		trip       time.Duration
		wire, hold time.Duration
	}{
		"nothing remembered": {0, time.Microsecond, 10 * time.Millisecond, 1},
		"no round trip":      {start, 0, 10 * time.Millisecond, 1},
		"long round trip":    {start, time.Second, 10 * time.Millisecond, 1},
		"sent before":        {start.Add(-time.Second), 1, 1, 10 * time.Millisecond},
	} {
		r := &rig{now: start}
		r.watch(0, 0)
		r.post.Record(0)
		r.watch(0, 1)
		r.Trip(c.trip)
		r.now = r.now.Add(10 * time.Millisecond)
		r.End(r.now, &r.post, c.last)
		if got := r.Latency(); got.Wire != c.wire || got.Hold != c.hold {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// One result is sampled at a time, until it is fetched. Earlier results do not end the sample.
func TestResultSample(t *testing.T) {
	r := &rig{now: start}
	r.result.Measure(0, r.clock, r.now) // no result was written
	r.result.Fetched(1)
	r.result.Measure(5, r.clock, r.now)
	r.now = r.now.Add(time.Millisecond)
	r.result.Measure(6, r.clock, r.now)
	r.result.Fetched(4)
	if r.result.Mean() != 0 {
		t.Errorf("%v before it was fetched", r.result.Mean())
	}
	r.result.Fetched(6)
	if r.result.Mean() != time.Millisecond {
		t.Errorf("%v", r.result.Mean())
	}
}
