package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

const (
	// pingPongDepth is the largest number of outstanding sends or writes of a ping-pong. The answer usually carries the
	// acknowledgement, so there is rarely more than one.
	pingPongDepth = 16
	// One request in signalEvery reports its success, which covers the requests before it. The answer already shows success, so a
	// program that needs low latency requests completions only as often as its queue needs.
	signalEvery = pingPongDepth / 2
)

// pingPong sends each message after the answer to the previous one, and records round trips.
func (d *data) pingPong(ctx context.Context) error {
	s := d.spec
	d.hist = NewHistogram()
	d.result.LatIs = HalfRoundTrip
	last := time.Now()
	warm, end := last.Add(s.warmUp()), time.Time{}
	for {
		if err := d.say(ctx); err != nil {
			return err
		}
		if err := d.digest(answerSeed); err != nil {
			return err
		}
		heard, err := d.hear(ctx)
		if err != nil {
			return err
		}
		if !heard {
			return errStopped
		}
		now := time.Now()
		d.hist.Record(now.Sub(last))
		last = now
		switch {
		case end.IsZero() && now.After(warm):
			d.hist.Reset()
			last = d.beginMeasuring()
			end = last.Add(s.Duration)
		case !end.IsZero() && now.After(end):
			d.endMeasuring(now, d.hist.Count())
			d.result.LatUS = d.hist.Summary(2)
			return errors.Join(d.digest(answerSeed), d.settle(ctx))
		}
	}
}

// answer runs the responder's side of pingPong until a control message arrives.
func (d *data) answer(ctx context.Context) error {
	for {
		heard, err := d.hear(ctx)
		if err != nil || !heard {
			return err
		}
		if err := d.say(ctx); err != nil {
			return err
		}
		d.warmUp()
		if err := d.digest(requestSeed); err != nil {
			return err
		}
	}
}

// mark returns the last byte of message k, which a receiver of Writes waits for. It differs from the slot's previous contents: the
// mark of an earlier message, or poison, which is no mark.
func mark(k uint64) byte { return byte(k + 1) }

// say sends message number posted.
func (d *data) say(ctx context.Context) error {
	slots := d.slots
	k := d.posted
	slot := int(k % uint64(slots))
	for k-d.completed >= pingPongDepth {
		if err := d.settleOne(ctx); err != nil {
			return err
		}
	}
	msg := d.mem.slot(slot)
	if d.spec.Verify {
		stamp(msg, d.step, stampOf(k, slots))
	}
	msg[len(msg)-1] = mark(k)
	d.posted++
	list := d.mem.entries(d.sges[:], slot, d.spec.Entries)
	flags := nd.OpSilentSuccess
	if d.posted%signalEvery == 0 {
		flags = 0
	}
	if d.spec.Test == SendLat {
		return d.link.qp.Send(k, list, flags)
	}
	return d.link.qp.Write(k, list, d.remoteAddress(slots+slot), nd.Token(d.remote.Token), flags)
}

// hear waits for the peer's message. It returns false if a control message arrives instead.
func (d *data) hear(ctx context.Context) (bool, error) {
	k := d.heard
	slot := int(k % uint64(d.slots))
	msg := d.mem.slot(d.slots + slot)
	for {
		if d.spec.Test == SendLat {
			if d.received > k {
				break
			}
		} else if msg[len(msg)-1] == mark(k) {
			break
		}
		if err := d.takeAll(ctx); err != nil {
			return false, err
		}
		if d.control.pending() {
			return false, nil
		}
	}
	d.heard++
	d.moved.Store(d.heard)
	return true, nil
}

// digest checks every byte of the messages received after the previous call, and frees their slots. It runs while the answer is in
// flight, because a slot is reused three messages later.
func (d *data) digest(seed uint64) error {
	for ; d.digested < d.heard; d.digested++ {
		k := d.digested
		slot := int(k % uint64(d.slots))
		if d.spec.Verify {
			msg := d.mem.slot(d.slots + slot)
			want := d.expected(seed, slot)
			stamp(want, d.step, stampOf(k, d.slots))
			want[len(want)-1] = mark(k)
			if at := firstDifference(msg, want); at >= 0 {
				return fmt.Errorf("%w: message %d is wrong at byte %d", errUnverified, k, at)
			}
		}
		if d.spec.Test == SendLat {
			if err := d.postMessageReceive(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// expected returns the expected contents of slot, which it computes once.
func (d *data) expected(seed uint64, slot int) []byte {
	if d.want == nil {
		d.want = make([]byte, len(d.outgoing()))
		fillSlots(d.want, d.spec.Size, d.slots, seed)
	}
	return d.want[slot*d.spec.Size : (slot+1)*d.spec.Size]
}

// takeAll handles completions: of this side's operations, of receives, and of markers or credits.
func (d *data) takeAll(ctx context.Context) error {
	done, err := d.results(ctx)
	if err != nil {
		return err
	}
	for i := range done {
		switch r := &done[i]; {
		case r.RequestID == flowContext:
			err = d.takeFlow()
		case r.RequestID >= receiveContext:
			err = d.takeMessage(r)
		default:
			err = d.takeOperation(r.RequestID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeOperation handles the completion of an operation, which covers all earlier ones.
func (d *data) takeOperation(k uint64) error {
	if k < d.completed || k >= d.posted {
		return fmt.Errorf("completion of operation %d although %d to %d are outstanding", k, d.completed, d.posted)
	}
	if d.spec.reads() {
		for d.checks.k <= k {
			if err := d.checkArrived(); err != nil {
				return err
			}
		}
	}
	d.completed = k + 1
	return nil
}

// takeMessage handles a received message.
func (d *data) takeMessage(r *nd.Result) error {
	if slot := d.received % uint64(d.slots); r.RequestID != receiveContext+slot {
		return fmt.Errorf("receive %d completed out of order", r.RequestID-receiveContext)
	}
	if int(r.Bytes) != d.spec.Size {
		return fmt.Errorf("message %d has %d bytes, want %d", d.received, r.Bytes, d.spec.Size)
	}
	d.received++
	return nil
}

func (d *data) settleOne(ctx context.Context) error {
	before := d.completed
	for d.completed == before {
		if err := d.takeAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until everything that this side has posted is complete.
func (d *data) settle(ctx context.Context) error {
	if d.posted%signalEvery != 0 {
		// An empty Write completes after the silent ones.
		if err := d.link.qp.Write(d.posted-1, nil, 0, 0, 0); err != nil {
			return err
		}
	}
	for d.completed < d.posted {
		if err := d.settleOne(ctx); err != nil {
			return err
		}
	}
	return nil
}

// postReceives posts receives for all incoming slots, in order.
func (d *data) postReceives() error {
	for k := range uint64(d.spec.receives()) {
		if err := d.postMessageReceive(k); err != nil {
			return err
		}
	}
	return nil
}

// postMessageReceive posts the receive of message k into its slot.
func (d *data) postMessageReceive(k uint64) error {
	slot := k % uint64(d.slots)
	if err := d.link.qp.Receive(receiveContext+slot, d.mem.sge(d.sges[:], d.slots+int(slot))); err != nil {
		return fmt.Errorf("post receive %d: %w", slot, err)
	}
	return nil
}
