package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// A stream is checked while it runs, so the requester must not write over what was not looked at yet. Behind every half window of
// Writes it sends a marker, a Send of nothing, which tells the responder's application that they are in place. A message says so
// itself. The responder checks the stamps and answers each half window with a credit, a Send of nothing too. At 1 MiB that is a packet
// each way for every two messages, at 64 bytes for every 32,768; Reads need none, because who asked for the bytes checks them.

// flowReceives is how many receives wait for markers or credits: a window has at most three halves, when it is odd and small.
const flowReceives = 4

// Request contexts: operations and markers have their number, receives of messages their slot. Receives of markers and credits have none.
const (
	receiveContext = 1 << 32
	flowContext    = 1 << 33
)

// window returns how many operations the requester may be ahead of what was checked.
func (s Spec) window() int {
	if s.Test == SendBW {
		return s.receives()
	}
	return s.slots()
}

// half returns how many operations each marker and each credit stands for.
func (s Spec) half() uint64 { return uint64(s.window() / 2) }

// flows reports whether the test has markers or credits: operations that write to a peer which does not answer each.
func (s Spec) flows() bool { return !s.answered() && s.Test != ReadLat && s.Test != ReadBW }

// flow is what one side knows of its peer's progress.
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

// takeFlow takes note of a marker or a credit.
func (d *data) takeFlow() error {
	if d.role == Requester {
		d.flow.checked += d.half
	} else {
		d.flow.placed += d.half
	}
	return d.postFlowReceive()
}

// tell sends markers or credits until as many were sent as there are whole half windows in ops.
func (d *data) tell(ops uint64) error {
	for d.flow.told < ops/d.half {
		d.flow.told++
		if err := d.link.qp.Send(ops, nil, nd.OpSilentSuccess); err != nil {
			return fmt.Errorf("send marker %d: %w", d.flow.told, err)
		}
	}
	return nil
}

// mayPost reports whether another list may go out.
func (d *data) mayPost() bool {
	list := uint64(d.spec.ListSize)
	return d.posted-d.completed+list <= uint64(d.spec.Depth) &&
		(!d.spec.flows() || d.posted+list <= d.flow.checked+d.window)
}

// checkPlaced checks what is in place, some operations at a time, so that the transport does not wait for long, and gives credit.
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

// checkArrived checks the stamps of the next operation that wrote to this side or was read by it.
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

// mark puts the stamp of operation k, from slot src, into a message.
func (d *data) mark(msg []byte, k uint64, src int) {
	w := walk{pass: k / uint64(d.slots), src: src, dst: int(k % uint64(d.slots))}
	stamp(msg, d.step, d.stampOf(&w))
}

// reads reports whether the test's operations are Reads.
func (s Spec) reads() bool { return s.Test == ReadLat || s.Test == ReadBW }

// prepare makes the bytes of the operation that w is at differ from all that is at its destination: the source of a Write or Send gets
// its stamp, the destination of a Read loses the one that it will get.
func (d *data) prepare(w *walk) {
	switch {
	case !d.spec.Verify:
	case d.spec.reads():
		stamp(d.mem.slot(d.slots+w.dst), d.step, ^d.stampOf(w))
	default:
		stamp(d.mem.slot(w.src), d.step, d.stampOf(w))
	}
}

// errStopped is the error of a side that is told to stop in the middle; its peer says why.
var errStopped = errors.New("the other side stopped in the middle")

// stallLimit is how long nothing may move before a run has failed: longer than any outage that the transport survives without time-outs
// of seconds, and short enough that a lost message is an error and not a wait.
const stallLimit = 5 * time.Second

// guard returns a context that ends when nothing moved for stallLimit.
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

// errStalled marks the end of a guarded context.
var errStalled = errors.New("stalled")

// reason is err, or what ended ctx when that was its guard.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
		return cause
	}
	return err
}
