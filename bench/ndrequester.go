package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// requester is the measuring side of a session.
type requester struct {
	*station
	cfg  NDConfig
	runs int
}

// dialSession connects the control channel.
func dialSession(ctx context.Context, a *nd.Adapter, cfg NDConfig) (*requester, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s, err := newStation(a, cfg.TLS)
	if err != nil {
		return nil, err
	}
	if err := s.control.link.dial(ctx, cfg.Local.Addr(), cfg.Peer, hello); err != nil {
		s.close()
		return nil, err
	}
	return &requester{station: s, cfg: cfg}, nil
}

// bye ends the session.
func (q *requester) bye(ctx context.Context) error {
	return q.control.send(ctx, controlMessage{Bye: true})
}

// run runs one spec.
func (q *requester) run(ctx context.Context, s Spec) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.budget())
	defer cancel()
	d, err := q.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer d.close()
	info := q.adapter.Datapath()
	d.result = Result{
		Test: s.Test, Size: s.Size, MTU: s.MTU, Depth: s.Depth, Entries: s.Entries, Mode: ModePoll, Datapath: info.Datapath.String(), Why: info.Reason, ZeroCopy: info.ZeroCopy,
		Told: q.teller != nil, Bulk: info.BulkPort != 0, Encrypted: q.cfg.TLS.Dial != nil,
	}
	if s.Event {
		d.result.Mode = ModeEvent
	}
	q.event = s.Event
	guarded, stop := d.guard(ctx)
	if d.spec.answered() {
		err = d.pingPong(guarded)
	} else {
		err = d.pipeline(guarded)
	}
	err = reason(guarded, err)
	stop()
	q.event = false
	if err != nil {
		return nil, q.explain(ctx, err)
	}
	if err := d.finish(ctx); err != nil {
		return nil, q.explain(ctx, err)
	}
	return &d.result, nil
}

// explain adds the responder's report to an error that the responder may have caused, and sends the error to the responder.
func (q *requester) explain(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	q.live = 0
	if errors.Is(err, errPeer) {
		return err
	}
	if errors.Is(err, errUnverified) || errors.Is(err, errStalled) {
		_ = q.control.send(ctx, controlMessage{Error: err.Error()}) // if this fails, the responder sees the connection end
		return err
	}
	if _, said := q.control.recv(ctx); errors.Is(said, errPeer) {
		return fmt.Errorf("%w (%w)", said, err)
	}
	return err
}

// answered reports whether the responder's application answers each message, so that latency is half a round trip. A sleeping
// responder does not notice a Write, so with completion events write_lat measures the Write itself.
func (s Spec) answered() bool { return s.Test == SendLat || s.Test == WriteLat && !s.Event }

// data is one spec's queue pair and memory, on either side.
type data struct {
	*station
	role   Role
	spec   Spec
	link   *link
	mem    *region // slots of the spec, twice: the first half is sent, the second half is written to
	remote remoteRegion
	// Values of the spec, copied for hot loops.
	slots, step  int
	window, half uint64
	sges         [MaxEntries]nd.SGE

	posted, completed uint64 // operations of this side
	received, heard   uint64 // completed receives; handled messages of the peer
	digested          uint64 // checked messages
	want              []byte // expected contents of the peer's messages
	posts, checks     walk   // next operation of this side; next operation of the requester to check
	flow              flow

	meter    meter
	mallocs  uint64        // during the measurement
	cpu      time.Duration // during the measurement
	measured uint64        // operations during the measurement
	result   Result        // requester only
	hist     *Histogram
}

// The patterns of the two directions differ, so that a message that comes back unchanged does not pass as an answer.
const (
	requestSeed = 11
	answerSeed  = 23
)

// newData makes the memory and the queue pair of a spec. The role that needs receives of messages posts them.
func (s *station) newData(spec Spec, role Role) (*data, error) {
	mem, err := s.newRegion(spec.Size, 2*spec.slots())
	if err != nil {
		return nil, fmt.Errorf("memory for %d messages of %s: %w", 2*spec.slots(), FormatSize(spec.Size), err)
	}
	fillPoison(mem.buf)
	s.used++
	link, err := s.newLink(s.used, spec.receives()+flowReceives, max(spec.Depth, pingPongDepth)+flowReceives, max(spec.Entries, 1))
	if err != nil {
		mem.close()
		return nil, fmt.Errorf("queue pair: %w", err)
	}
	s.live, s.stash = s.used, nil
	s.moved.Store(0)
	d := &data{
		station: s, role: role, spec: spec, link: link, mem: mem,
		slots: spec.slots(), step: spec.step(), window: uint64(spec.window()), half: spec.half(),
	}
	if spec.flows() && (spec.Test != SendBW || role == Requester) {
		if err := d.postFlow(); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *data) close() {
	d.live = 0
	d.link.close()
	d.mem.close()
}

// outgoing and incoming return the halves of the region.
func (d *data) outgoing() []byte { return d.mem.buf[:d.slots*d.spec.Size] }
func (d *data) incoming() []byte { return d.mem.buf[d.slots*d.spec.Size:] }

// fill writes the patterns that this side sends, or that the peer reads.
func (d *data) fill(seed uint64) {
	fillSlots(d.outgoing(), d.spec.Size, d.slots, seed)
	for i := range d.slots {
		stamp(d.mem.slot(i), d.step, readStamp(i))
	}
}

// remoteAddress returns the address of message slot i in the peer's incoming half, or outgoing half for reads.
func (d *data) remoteAddress(i int) uint64 { return d.remote.Address + uint64(i*d.spec.Size) }

// open sends a spec to the responder and connects the queue pair for it.
func (q *requester) open(ctx context.Context, s Spec) (*data, error) {
	d, err := q.newData(s, Requester)
	if err != nil {
		return nil, err
	}
	if err := q.connect(ctx, d); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (q *requester) connect(ctx context.Context, d *data) error {
	d.fill(requestSeed)
	if d.spec.Test == SendLat {
		if err := d.postReceives(); err != nil {
			return err
		}
	}
	q.runs++
	setup := &setupMessage{
		Spec: d.spec, Region: d.mem.remote(),
		ID: Schema + " data " + strconv.Itoa(os.Getpid()) + "." + strconv.Itoa(q.runs),
	}
	if err := q.control.send(ctx, controlMessage{Setup: setup}); err != nil {
		return err
	}
	m, err := q.control.expect(ctx)
	if err != nil {
		return err
	}
	if m.Ready == nil {
		return errors.New("the responder did not answer the message setup with ready")
	}
	d.remote = *m.Ready
	dialCtx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := d.link.dial(dialCtx, q.cfg.Local.Addr(), q.cfg.Peer, setup.ID); err != nil {
		return err
	}
	if m, err = q.control.expect(ctx); err != nil {
		return err
	}
	if !m.Start {
		return errors.New("the responder did not send the message start")
	}
	return nil
}

// finish lets the responder stop and verify, verifies Reads, and completes the result.
func (d *data) finish(ctx context.Context) error {
	r := &d.result
	d.live = 0
	mallocsHere, resent := d.mallocs, d.meter.resent()
	if err := d.control.send(ctx, controlMessage{Done: &doneMessage{Ops: d.posted}}); err != nil {
		return err
	}
	m, err := d.control.recv(ctx) // bounded by the spec's budget, because the verification of much memory takes long
	if err != nil {
		return err
	}
	if m.Result == nil {
		return errors.New("the responder did not answer the message done with a result")
	}
	if m.Result.Error != "" {
		return fmt.Errorf("%w: %s", errPeer, m.Result.Error)
	}
	if d.spec.Verify && d.spec.reads() {
		if err := verifySlots(d.incoming(), d.spec.Size, d.slots, answerSeed, d.posted, d.mark); err != nil {
			return err
		}
	}
	r.Verified = d.spec.Verify
	r.Ops, r.Bytes = d.measured, d.measured*uint64(d.spec.Size)
	// The responder counts processor time from start to end, and allocations from the end of the warm-up. The requester counts the
	// measured part.
	r.CPUUS = 1e6 * (d.cpu.Seconds()/float64(max(d.measured, 1)) + m.Result.CPU.Seconds()/float64(max(d.posted, 1)))
	r.RequesterCPU, r.ResponderCPU = 100*d.cpu.Seconds()/r.Seconds, percent(m.Result.CPU, m.Result.Elapsed)
	r.AllocsPerOp = float64(mallocsHere)/float64(max(d.measured, 1)) + float64(m.Result.Mallocs)/float64(max(d.measured, 1))
	r.Resent = resent.plus(m.Result.Resent)
	r.Retransmits = r.Resent.Sum()
	r.setRate()
	return nil
}

// beginMeasuring marks the beginning of the measurement, endMeasuring its end. Both may take milliseconds, which do not count: the
// measured time ends at now.
func (d *data) beginMeasuring() time.Time {
	d.meter = startMeter(d.adapter)
	d.teller.begin(&d.meter)
	return d.meter.began
}

func (d *data) endMeasuring(now time.Time, ops uint64) {
	d.measured = ops
	d.result.Seconds = now.Sub(d.meter.began).Seconds()
	d.cpu = d.meter.cpuSince()
	d.mallocs = d.meter.mallocsSince()
	d.teller.end(now) // after the end, because it allocates
	d.meter.limited.explain(takeLimits(d.adapter), &d.result)
}
