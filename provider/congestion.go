package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Control names a congestion controller.
type Control uint8

// The controllers.
const (
	// ControlDelay keeps the round trip near a target and reacts to loss and marks (delaycontrol.go).
	ControlDelay Control = iota
	// ControlFixed keeps Config.FixedWindow packets in flight whatever happens: for finding out what the controller costs.
	ControlFixed
)

// Windows are in 1/windowUnit of a packet, over both sequence spaces: integers, so that no rounding depends on a machine.
const (
	windowUnit = 1 << 16
	// minFabric is a packet in 16 round trips. Swift goes down to 100 (SIGCOMM 2020); on shared machines a round trip is
	// sometimes milliseconds, and 100 of them hung an application.
	minFabric = windowUnit / 16
	// maxGap bounds pacing. It is below the least time-out, so that pacing never looks like loss.
	maxGap    = time.Millisecond
	maxFabric = Window * windowUnit
	// initialWindow: 32 connections that begin at once put 512 packets into one switch port, 0.6 ms of a 10 Gb/s link and
	// below the least time-out. Slow start makes 256 of it in four round trips.
	initialWindow = 16
	// minFlight is what the cap on packets in flight always allows: two batches, so that one is on its way while the other
	// is made, however short the round trip.
	minFlight = 2 * txBatch
)

// controller decides over the fabric window. It keeps nothing: what a connection needs is in its congestion, so that a
// connection costs no pointer and no allocation. It is called once per batch of acknowledgements, never per packet.
type controller interface {
	start(cc *congestion)
	// acked takes in what one receive batch told.
	acked(cc *congestion, b *ackBatch)
	// lost is called at most once per round trip, with the packets lost and delivered in about that time.
	lost(cc *congestion, lost, delivered int)
	// timedOut is called on every retransmission time-out.
	timedOut(cc *congestion)
}

// ackBatch is what one receive batch told a connection.
type ackBatch struct {
	now      clock.Time
	packets  int           // newly acknowledged, or delivered to us as answers to READs
	delay    time.Duration // the least round trip among the samples, without our own part; zero for none
	base     time.Duration // the least round trip ever
	own      time.Duration // the part of the round trip that is our own work
	smoothed time.Duration // the round trip as recovery sees it, interruptions and all
	round    time.Duration // the round trip without them
	marks    int           // packets that arrived with a congestion mark
	longer   time.Duration // the controller's answer: the least round trip of a path that became longer; zero for none
}

// congestion is the sending side's state: how many packets may be in flight, and from when on.
type congestion struct {
	// What the transmit path reads.
	window int           // packets that may be in flight
	gap    time.Duration // from one packet to the next when the window is less than a packet; else zero
	sendAt clock.Time    // no packet before, when gap is not zero
	wakeAt clock.Time    // the pacing timer; zero when nothing waits for it

	fabric    int        // window of the controller
	threshold int        // slow start ends here
	before    int        // fabric window before the last time-out, to undo it; zero when there is none
	limitedAt clock.Time // when a packet last had to wait for the window

	endpoint endpointWindow
	flight   flightCap
	signal   delaySignal
	marks    markSignal
	batch    ackBatch
	queued   bool // in Engine.heardConns
	lost     int  // packets lost since the last reaction
	good     int  // and delivered
	lossAt   clock.Time
}

func (cc *congestion) reset(ctl controller) {
	*cc = congestion{threshold: maxFabric}
	cc.endpoint.reset()
	ctl.start(cc)
	cc.settle(0)
}

// settle makes window and gap follow from the windows: the least of them counts.
func (cc *congestion) settle(smoothed time.Duration) {
	w := min(cc.fabric, cc.endpoint.window, cc.flight.cap())
	if w >= windowUnit {
		cc.window, cc.gap = w/windowUnit, 0
		return
	}
	cc.window = 1
	cc.gap = min(smoothed*windowUnit/time.Duration(max(w, minFabric)), maxGap)
}

// grow adds what n acknowledged packets are worth: themselves in slow start, their part of one packet per round trip
// afterwards. A window of less than a packet grows by a whole one with every acknowledgement, as Swift's does. A step in
// proportion to the window is calmer, but makes no shares equal: 8 to 16 flows of less than a packet each had Jain indices
// of 0.84 and 0.70 in simulation; now both 0.97.
func (cc *congestion) grow(n int) {
	if cc.fabric < cc.threshold {
		cc.fabric = min(cc.fabric+n*windowUnit, cc.threshold)
		return
	}
	cc.fabric = min(cc.fabric+n*windowUnit*windowUnit/max(cc.fabric, windowUnit), maxFabric)
}

// limited says whether the window held packets back in the last round trip, or an eighth of one before: with one packet in flight
// the last time is exactly one ago. A window that did not may neither grow, because nobody knows whether the path bears more,
// nor shrink below where it began, because it holds nothing back.
func (cc *congestion) limited(b *ackBatch) bool {
	return b.now.Sub(cc.limitedAt) <= b.smoothed+b.smoothed/8+cc.gap
}

// undo takes back a time-out that was not one (RFC 3522). It reports whether there was one to take back.
func (cc *congestion) undo() bool {
	if cc.before == 0 {
		return false
	}
	if cc.before > cc.fabric {
		cc.fabric, cc.threshold = cc.before, maxFabric
		cc.window, cc.gap = max(min(cc.fabric, cc.endpoint.window, cc.flight.cap())/windowUnit, 1), 0
	}
	cc.before = 0
	return true
}

// timeOut reacts to a retransmission time-out: one packet, and slow start up to half of what was.
func (c *conn) timeOut() {
	c.engine.controller.timedOut(&c.cc)
	c.cc.settle(c.rtt.smoothed)
}

// delivered notes that n packets reached the peer, or that it answered with n.
func (c *conn) delivered(n int) {
	c.cc.batch.packets += n
	c.cc.good += n
	c.heardBatch()
}

// heardBatch puts the connection on the list of those that have to draw conclusions at the end of the receive batch.
func (c *conn) heardBatch() {
	if !c.cc.queued {
		c.cc.queued = true
		c.engine.heardConns = append(c.engine.heardConns, c)
	}
}

// noteDelay takes in one round trip. What spans a time when one of the two peers was off its core says nothing at all.
func (c *conn) noteDelay(d time.Duration, away bool) {
	e := c.engine
	if d <= 0 || d > maxSample || away {
		return
	}
	d, ok := e.turns.Network(d, c.rtt.min, e.now)
	if !ok {
		return
	}
	if b := &c.cc.batch; b.delay == 0 || d < b.delay {
		b.delay = d
	}
	c.heardBatch()
}

// conclude lets the controllers of every connection that heard something draw their conclusions, once per receive batch.
func (e *Engine) conclude() {
	for i, c := range e.heardConns {
		e.heardConns[i] = nil
		cc := &c.cc
		cc.queued = false
		if c.phase == phaseOpen {
			b := &cc.batch
			b.now, b.base, b.own, b.smoothed, b.round = e.now, c.rtt.min, e.turns.OwnPart(), c.rtt.smoothed, c.rtt.smoothed
			if d := cc.signal.delay; d > 0 {
				b.round = min(d+b.own, b.smoothed)
			}
			cc.flight.acked(b)
			e.controller.acked(cc, b)
			if b.longer > 0 {
				c.rtt.min = b.longer
			}
			cc.settle(c.rtt.smoothed)
		}
		cc.batch = ackBatch{}
	}
	e.heardConns = e.heardConns[:0]
}

// onMarks takes in that n of our packets were marked by a router.
func (c *conn) onMarks(n int) {
	c.cc.batch.marks += n
	c.engine.stats.Marked += uint64(n)
	c.heardBatch()
}

// noteLoss takes in that a packet was lost. The controller hears of it at most once per round trip.
func (c *conn) noteLoss() {
	cc := &c.cc
	cc.lost++
	if c.engine.now.Sub(cc.lossAt) <= c.rtt.smoothed {
		return
	}
	cc.lossAt = c.engine.now
	c.engine.controller.lost(cc, cc.lost, cc.good)
	cc.lost, cc.good, cc.before = 0, 0, 0 // a time-out before a loss was one
	cc.settle(c.rtt.smoothed)
}

// flightCap bounds packets in flight to twice what the path holds (IRN, SIGCOMM 2018: bandwidth times round trip), measured
// over round trips, with our own share of the round trip counted in.
type flightCap struct {
	packets   int // twice the product, decaying
	delivered int
	from      clock.Time
}

func (f *flightCap) cap() int { return max(f.packets, minFlight) * windowUnit }

func (f *flightCap) acked(b *ackBatch) {
	if b.delay == 0 { // somebody was off its core: the time that passed is not the path's
		f.delivered, f.from = 0, b.now
		return
	}
	f.delivered += b.packets
	elapsed := b.now.Sub(f.from)
	if elapsed < b.round || b.round == 0 {
		return
	}
	product := int(2 * time.Duration(f.delivered) * (b.base + b.own) / elapsed)
	f.packets = min(max(product, f.packets-f.packets/8), Window)
	f.delivered, f.from = 0, b.now
}

// fixedControl is ControlFixed.
type fixedControl struct{ packets int }

func (f *fixedControl) start(cc *congestion) {
	cc.fabric = f.packets * windowUnit
	cc.flight.packets = Window
}

func (f *fixedControl) acked(cc *congestion, _ *ackBatch) { f.start(cc) }
func (*fixedControl) lost(*congestion, int, int)          {}
func (*fixedControl) timedOut(*congestion)                {}

// newController makes the controller that the configuration names.
func newController(cfg *Config) controller {
	if cfg.Control == ControlFixed {
		return &fixedControl{cfg.FixedWindow}
	}
	return &delayControl{}
}
