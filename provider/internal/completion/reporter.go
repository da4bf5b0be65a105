package completion

import (
	"slices"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// Reporter takes what an engine reports to the completion queues that are to show it: at the end of a turn, or later where a queue
// moderates its notifications.
type Reporter struct {
	trace.Requests // that ended well

	touched   []*Queue    // have results that nobody sees yet
	moderated []moderated // hold notifications back
}

// moderated is a queue whose waiters are told at the latest at a given time.
type moderated struct {
	cq *Queue
	at clock.Time
}

// Complete writes a result into a queue. False means that the completion queue has overrun, and nobody will ever see it.
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

// Report makes completed results visible to applications. It stops at a queue that overran and returns it, once for each queue; nil
// says that all results are visible.
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

// Moderate starts the time of notifications that a queue holds back, if it holds some and the time does not run yet.
func (r *Reporter) Moderate(q *Queue, now clock.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.mod.withheld || q.mod.due != 0 || q.mod.interval < 0 {
		return
	}
	q.mod.due = now.Add(q.mod.interval)
	if i := slices.IndexFunc(r.moderated, func(m moderated) bool { return m.cq == q }); i >= 0 { // of a wait that is over
		r.moderated[i].at = q.mod.due
		return
	}
	r.moderated = append(r.moderated, moderated{q, q.mod.due})
}

// Tell notifies the waiters whose time has come.
func (r *Reporter) Tell(now clock.Time) {
	kept := r.moderated[:0]
	for _, m := range r.moderated {
		if m.at > now {
			kept = append(kept, m)
			continue
		}
		m.cq.mu.Lock()
		if m.cq.mod.withheld && m.cq.mod.due != 0 && m.cq.mod.due <= now { // else another wait began, and is on a list for its own time
			m.cq.notify(outcome.Success)
		}
		m.cq.mu.Unlock()
	}
	clear(r.moderated[len(kept):])
	r.moderated = kept
}

// Due is when Tell has something to do.
func (r *Reporter) Due() clock.Time {
	at := clock.Never
	for _, m := range r.moderated {
		at = min(at, m.at)
	}
	return at
}

// Moderating says that some notifications are held back.
func (r *Reporter) Moderating() bool { return len(r.moderated) > 0 }
