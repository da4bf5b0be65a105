package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// pipeline keeps the spec's depth of operations outstanding, posted in lists, until warm-up and measurement are over;
// with a depth of one it records how long each operation takes.
func (d *data) pipeline(ctx context.Context) error {
	s := d.spec
	if s.Test.IsLatency() {
		d.hist = NewHistogram()
		d.result.LatIs = WholeOp
	}
	start := time.Now()
	warm, end := start.Add(s.warmUp()), time.Time{}
	var base uint64 // completed when measuring began
	postedAt := start
	for turn := 0; ; turn++ {
		for d.posted-d.completed+uint64(s.ListSize) <= uint64(s.Depth) {
			if d.hist != nil {
				postedAt = time.Now()
			}
			if err := d.postList(); err != nil {
				return err
			}
		}
		before := d.completed
		if err := d.reap(ctx); err != nil {
			return err
		}
		if d.hist != nil && d.completed > before {
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
		case !end.IsZero() && now.After(end) && d.completed > base:
			d.endMeasuring(now, d.completed-base)
			if d.hist != nil {
				d.result.LatUS = d.hist.Summary(1)
			}
			return d.drain(ctx)
		}
	}
}

// postList posts one list; only its last request reports success, which stands for all of them because requests of a
// queue pair complete in order.
func (d *data) postList() error {
	for i := range d.spec.ListSize {
		flags := nd.OpSilentSuccess | nd.OpDefer
		if i == d.spec.ListSize-1 {
			flags = 0
		}
		if err := d.postOne(d.posted, flags); err != nil {
			return fmt.Errorf("post operation %d: %w", d.posted, err)
		}
		d.posted++
	}
	return nil
}

func (d *data) postOne(k uint64, flags nd.OpFlags) error {
	slots := d.spec.slots()
	src, dst := slotPair(k, slots)
	token := nd.Token(d.remote.Token)
	switch d.spec.Test {
	case SendBW, SendLat:
		return d.link.qp.Send(k, d.mem.sge(d.sges[:], src), flags)
	case ReadBW, ReadLat:
		return d.link.qp.Read(k, d.mem.sge(d.sges[:], slots+dst), d.remoteAddress(src), token, flags)
	case WriteBW, WriteLat, WriteRate:
		return d.link.qp.Write(k, d.mem.sge(d.sges[:], src), d.remoteAddress(slots+dst), token, flags)
	}
	return fmt.Errorf("test %q is unknown", d.spec.Test)
}

// reap takes completions of the initiator queue.
func (d *data) reap(ctx context.Context) error {
	done, err := d.results(ctx)
	if err != nil {
		return err
	}
	for i := range done {
		k := done[i].RequestContext
		if k < d.completed || k >= d.posted {
			return fmt.Errorf("completion of operation %d although %d to %d are outstanding", k, d.completed, d.posted)
		}
		d.completed = k + 1
	}
	return nil
}

func (d *data) drain(ctx context.Context) error {
	for d.completed < d.posted {
		if err := d.reap(ctx); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
	}
	return nil
}
