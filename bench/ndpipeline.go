package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// pipeline keeps the spec's number of operations outstanding, posted in lists, until warm-up and measurement are over. If only one
// is outstanding, it records the latency of each operation.
func (d *data) pipeline(ctx context.Context) error {
	s := d.spec
	if s.Test.IsLatency() {
		d.hist = NewHistogram()
		d.result.LatIs = WholeOp
	}
	start := time.Now()
	warm, end := start.Add(s.warmUp()), time.Time{}
	var base uint64 // completed operations when the measurement began
	postedAt := start
	for turn := 0; ; turn++ {
		for d.mayPost() {
			if d.hist != nil {
				postedAt = time.Now()
			}
			if err := d.postList(); err != nil {
				return err
			}
		}
		moved, err := d.reap(ctx)
		if err != nil {
			return err
		}
		if d.hist != nil && moved {
			d.hist.Record(time.Since(postedAt))
		} else if turn%clockEvery != 0 {
			continue
		}
		now := time.Now()
		switch {
		case end.IsZero() && now.After(warm) && d.completed > 0:
			if d.hist != nil {
				d.hist.Reset()
			}
			base = d.completed
			end = d.beginMeasuring().Add(s.Duration)
		case !end.IsZero() && (now.After(end) || d.cut.Load()) && d.completed > base:
			d.endMeasuring(now, d.completed-base)
			if d.hist != nil {
				d.result.LatUS = d.hist.Summary(1)
			}
			return d.drain(ctx)
		}
	}
}

// postList posts one list, and the markers that are due. Only its last request reports success, which covers the list, because
// requests of a queue pair complete in order.
func (d *data) postList() error {
	for i := range d.spec.ListSize {
		flags := nd.OpSilentSuccess | nd.OpDefer
		if i == d.spec.ListSize-1 {
			flags = 0
		}
		if err := d.postOne(flags); err != nil {
			return fmt.Errorf("post operation %d: %w", d.posted, err)
		}
		d.posted++
	}
	if d.spec.Test == SendBW || !d.spec.flows() {
		return nil
	}
	return d.tell(d.posted)
}

func (d *data) postOne(flags nd.OpFlags) error {
	w := &d.posts
	defer w.next(d.slots)
	d.prepare(w)
	token := nd.Token(d.remote.Token)
	switch d.spec.Test {
	case SendBW, SendLat:
		return d.link.qp.Send(w.k, d.mem.entries(d.sges[:], w.src, d.spec.Entries), flags)
	case ReadBW, ReadLat:
		return d.link.qp.Read(w.k, d.mem.entries(d.sges[:], d.slots+w.dst, d.spec.Entries), d.remoteAddress(w.src), token, flags)
	case WriteBW, WriteLat, WriteRate:
		return d.link.qp.Write(w.k, d.mem.entries(d.sges[:], w.src, d.spec.Entries), d.remoteAddress(d.slots+w.dst), token, flags)
	}
	return fmt.Errorf("test %q is unknown", d.spec.Test)
}

// reap handles completions. It reports whether an operation completed.
func (d *data) reap(ctx context.Context) (moved bool, err error) {
	before := d.completed
	if err := d.takeAll(ctx); err != nil {
		return false, err
	}
	if d.control.pending() {
		return false, errStopped
	}
	if d.completed == before {
		return false, nil
	}
	d.moved.Store(d.completed)
	return true, nil
}

func (d *data) drain(ctx context.Context) error {
	for d.completed < d.posted {
		if _, err := d.reap(ctx); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
	}
	return nil
}
