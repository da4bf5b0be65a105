package completion

import (
	"slices"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// Reporter collects an engine's results for completion queues and shows them at the end of a poll. Notifications may come later if
// a queue moderates them.
type Reporter struct {
	trace.Requests // successful requests

	touched   []*Queue    // queues with unpublished results
	moderated []moderated // queues with delayed notifications
}

// moderated is a queue whose waiters are notified at the given time at the latest.
type moderated struct {
	cq *Queue
	at clock.Time
}

// Complete writes a result into a queue. It returns false if the queue has overrun, so that the result is lost.
func (r *Reporter) Complete(q *Queue, res *Result) (ok bool) {
	if q.several {
		q.producing.Lock()
		ok = q.push(res)
		q.producing.Unlock()
		if !slices.Contains(r.touched, q) {
			r.touched = append(r.touched, q)
		}
		return ok
	}
	ok = q.push(res)
	if !q.queued {
		q.queued = true
		r.touched = append(r.touched, q)
	}
	return ok
}

// Report makes results visible to applications. If a queue overran, Report stops and returns it, once for each queue. Report
// returns nil when all results are visible.
func (r *Reporter) Report(now clock.Time) (overran *Queue) {
	for len(r.touched) > 0 {
		last := len(r.touched) - 1
		q := r.touched[last]
		r.touched[last] = nil
		r.touched = r.touched[:last]
		if q.several {
			q.producing.Lock()
		}
		q.queued = false
		if q.publish() {
			r.Moderate(q, now)
		}
		overran := !q.failed && q.faulted.Load()
		q.failed = q.failed || overran
		if q.several {
			q.producing.Unlock()
		}
		if overran {
			return q
		}
	}
	return nil
}

// Moderate starts the interval of a queue's delayed notifications, unless it runs already or nothing is delayed.
func (r *Reporter) Moderate(q *Queue, now clock.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.mod.withheld || q.mod.due != 0 || q.mod.interval < 0 {
		return
	}
	q.mod.due = now.Add(q.mod.interval)
	if i := slices.IndexFunc(r.moderated, func(m moderated) bool { return m.cq == q }); i >= 0 { // an entry of an earlier delay
		r.moderated[i].at = q.mod.due
		return
	}
	r.moderated = append(r.moderated, moderated{q, q.mod.due})
}

// Tell sends delayed notifications whose time has come.
func (r *Reporter) Tell(now clock.Time) {
	kept := r.moderated[:0]
	for _, m := range r.moderated {
		if m.at > now {
			kept = append(kept, m)
			continue
		}
		m.cq.mu.Lock()
		if m.cq.mod.withheld && m.cq.mod.due != 0 && m.cq.mod.due <= now { // otherwise a newer delay has an entry of its own
			m.cq.notify(outcome.Success)
		}
		m.cq.mu.Unlock()
	}
	clear(r.moderated[len(kept):])
	r.moderated = kept
}

// Due returns the time of the next call of Tell.
func (r *Reporter) Due() clock.Time {
	at := clock.Never
	for _, m := range r.moderated {
		at = min(at, m.at)
	}
	return at
}

// Moderating reports whether notifications are delayed.
func (r *Reporter) Moderating() bool { return len(r.moderated) > 0 }
