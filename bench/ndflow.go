package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// A stream is checked while it runs, so the requester must not overwrite bytes that were not checked yet. After every half window
// of Writes it sends a marker, an empty Send, which tells the responder's application that the Writes are in place. Sends need no
// marker. The responder checks the stamps and answers each half window with a credit, another empty Send. At 1 MiB this is one
// packet in each direction for every two messages; at 64 bytes, for every 32,768. Reads need neither, because the requester checks
// the bytes.

// flowReceives is the number of receives for markers or credits. A window has at most three halves, if it is odd and small.
const flowReceives = 4

// Request contexts. Operations and markers have their number, receives of messages their slot. Receives of markers and credits have
// no number.
const (
	receiveContext = 1 << 32
	flowContext    = 1 << 33
)

// window returns how many unchecked operations the requester may have.
func (s Spec) window() int {
	if s.Test == SendBW {
		return s.receives()
	}
	return s.slots()
}

// half returns the number of operations for each marker and credit.
func (s Spec) half() uint64 { return uint64(s.window() / 2) }

// flows reports whether the test has markers or credits: operations that write to a peer which does not answer each of them.
func (s Spec) flows() bool { return !s.answered() && s.Test != ReadLat && s.Test != ReadBW }

// flow is one side's view of its peer's progress.
type flow struct {
	checked uint64 // requester: operations that the responder has checked
	placed  uint64 // responder: operations known to be in place
	told    uint64 // markers or credits sent
}

// postFlow posts the receives for markers or credits.
func (d *data) postFlow() error {
	for range flowReceives {
		if err := d.postFlowReceive(); err != nil {
			return err
		}
	}
	return nil
}

func (d *data) postFlowReceive() error {
	if err := d.link.qp.Receive(flowContext, nil); err != nil {
		return fmt.Errorf("post a receive for markers: %w", err)
	}
	return nil
}

// takeFlow handles a marker or a credit.
func (d *data) takeFlow() error {
	if d.role == Requester {
		d.flow.checked += d.half
	} else {
		d.flow.placed += d.half
	}
	return d.postFlowReceive()
}

// tell sends markers or credits for each complete half window in ops.
func (d *data) tell(ops uint64) error {
	for d.flow.told < ops/d.half {
		d.flow.told++
		if err := d.link.qp.Send(ops, nil, nd.OpSilentSuccess); err != nil {
			return fmt.Errorf("send marker %d: %w", d.flow.told, err)
		}
	}
	return nil
}

// mayPost reports whether another list may be posted.
func (d *data) mayPost() bool {
	list := uint64(d.spec.ListSize)
	return d.posted-d.completed+list <= uint64(d.spec.Depth) &&
		(!d.spec.flows() || d.posted+list <= d.flow.checked+d.window)
}

// checkPlaced checks operations that are in place, a few at a time so that the transport does not wait for long, and sends credits.
func (d *data) checkPlaced() error {
	const batch = 64
	for n := 0; d.checks.k < d.flow.placed; n++ {
		if n == batch && !d.event {
			break
		}
		if err := d.checkArrived(); err != nil {
			return err
		}
		if d.spec.Test == SendBW {
			if err := d.postMessageReceive(d.checks.k - 1 + uint64(d.spec.receives())); err != nil {
				return err
			}
		}
	}
	return d.tell(d.checks.k)
}

// checkArrived checks the stamps of the next operation that wrote to this side or that this side read.
func (d *data) checkArrived() error {
	w := &d.checks
	var err error
	if d.spec.Verify {
		err = stamped(d.mem.slot(d.slots+w.dst), d.step, d.stampOf(w), w.k, w.dst)
	}
	w.next(d.slots)
	return err
}

// stampOf returns the stamp of the operation that w is at.
func (d *data) stampOf(w *walk) uint64 {
	if d.spec.reads() {
		return readStamp(w.src)
	}
	return stampIn(w.pass, w.dst)
}

// mark writes the stamp of operation k, from slot src, into a message.
func (d *data) mark(msg []byte, k uint64, src int) {
	w := walk{pass: k / uint64(d.slots), src: src, dst: int(k % uint64(d.slots))}
	stamp(msg, d.step, d.stampOf(&w))
}

// reads reports whether the test's operations are Reads.
func (s Spec) reads() bool { return s.Test == ReadLat || s.Test == ReadBW }

// prepare makes the bytes of the next operation differ from the bytes at its destination. It writes the stamp into the source of a
// Write or Send, and removes the expected stamp from the destination of a Read.
func (d *data) prepare(w *walk) {
	switch {
	case !d.spec.Verify:
	case d.spec.reads():
		stamp(d.mem.slot(d.slots+w.dst), d.step, ^d.stampOf(w))
	default:
		stamp(d.mem.slot(w.src), d.step, d.stampOf(w))
	}
}

// errStopped means that the peer ended the test; the peer reports the reason.
var errStopped = errors.New("the peer process ended the test before it was complete")

// stallLimit is the time without progress after which a run fails. It exceeds any outage that the transport survives without
// time-outs of seconds, so that a lost message becomes an error.
const stallLimit = 5 * time.Second

// guard returns a context that ends after stallLimit without progress.
func (d *data) guard(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(stallLimit / 4)
		defer tick.Stop()
		last, still := d.moved.Load(), 0
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if now := d.moved.Load(); now != last {
				last, still = now, 0
			} else if still++; still == 4 {
				cancel(fmt.Errorf("%w: after %d operations nothing moved for %v: one of them, or an answer or credit, was lost, or the other side ended or hangs", errStalled, now, stallLimit))
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// errStalled is the cause of a guarded context that ended.
var errStalled = errors.New("stalled")

// reason returns err, or the cause of ctx if its guard ended it.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
		return cause
	}
	return err
}
