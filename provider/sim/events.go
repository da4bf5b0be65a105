package sim

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// event is a call or a poll of a host at a given time. seq orders events at the same time.
type event struct {
	at   clock.Time
	seq  uint64
	do   func()
	host *Host // if do is nil
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// eventHeap is a binary heap of events, earliest first.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	q := *h
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !q[i].before(&q[parent]) {
			break
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (h *eventHeap) pop() event {
	q := *h
	first, last := q[0], len(q)-1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	*h = q
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && q[child+1].before(&q[child]) {
			child++
		}
		if !q[child].before(&q[i]) {
			return first
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}

// Now returns the virtual time.
func (n *Network) Now() clock.Time { return n.now }

// After calls do after d.
func (n *Network) After(d time.Duration, do func()) {
	n.seq++
	n.events.push(event{at: n.now.Add(d), seq: n.seq, do: do})
}

// Step runs the next event. It returns false if there is none.
func (n *Network) Step() bool {
	if len(n.events) == 0 {
		return false
	}
	e := n.events.pop()
	n.now = max(n.now, e.at)
	if e.do != nil {
		e.do()
	} else {
		e.host.turn()
	}
	return true
}

// RunUntil runs events until done returns true. It returns false after the time limit or a failure.
func (n *Network) RunUntil(limit time.Duration, done func() bool) bool {
	end := n.now.Add(limit)
	for !done() {
		if len(n.broken) > 0 || n.now > end || !n.Step() {
			return false
		}
	}
	return true
}
