package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Windows are in 1/Unit of a packet, over both sequence spaces: integers, so that no rounding depends on a machine.
const (
	Unit = 1 << 16
	// MinWindow is a packet in 16 round trips. Swift goes down to 100 (SIGCOMM 2020); on shared machines a round trip is
	// sometimes milliseconds, and 100 of them hung an application.
	MinWindow = Unit / 16
	// maxGap bounds pacing. It is below the least time-out, so that pacing never looks like loss.
	maxGap = time.Millisecond
	// MaxPackets is the largest window, in packets.
	MaxPackets = 256
	MaxWindow  = MaxPackets * Unit
	// InitialWindow, in packets: 32 connections that begin at once put 512 packets into one switch port, 0.6 ms of a 10 Gb/s link and
	// below the least time-out. Slow start makes 256 of it in four round trips.
	InitialWindow = 16
)

// Control decides over the window for the network. It keeps nothing: what a connection needs is in its State, so that a
// connection costs no pointer and no allocation. It is called once per batch of acknowledgements, never per packet.
type Control interface {
	// start sets the first window.
	start(s *State)
	// acked takes in what one receive batch told. It returns the least round trip of a path that became longer, else zero.
	acked(s *State, b *batch) (longer time.Duration)
	// lost is called at most once per round trip, with the packets lost and delivered in about that time.
	lost(s *State, lost, delivered int)
	// timedOut is called on every retransmission time-out.
	timedOut(s *State)
}

// Path is what else the engine knows when a receive batch is over.
type Path struct {
	Now      clock.Time
	Base     time.Duration // the least round trip ever
	Own      time.Duration // the part of the round trip that is our own work
	Smoothed time.Duration // the round trip as recovery sees it, interruptions and all
}

// batch is what one receive batch told a connection.
type batch struct {
	Path
	round   time.Duration // the round trip without interruptions
	packets int           // newly acknowledged, or delivered to us as answers to READs
	marks   int           // packets that arrived with a congestion mark
	delay   time.Duration // the least round trip among the samples, without our own part; zero for none
}

// State is what the sending side of a connection knows about its network: how many packets may be in flight, and from when on.
// Every exported method but the questions ends with Packets and the gap between packets set.
type State struct {
	Packets int // that may be in flight
	pacing  pacing

	window    int        // for the network, as the controller decides
	threshold int        // slow start ends here
	before    int        // window before the last time-out, to undo it; zero when there is none
	limitedAt clock.Time // when a packet last had to wait for the window

	endpoint endpoint
	flight   flightCap
	delay    delaySignal
	marks    markSignal
	batch    batch
	lost     int // packets lost since the last reaction
	good     int // and delivered
	lossAt   clock.Time
}

// Reset begins anew: nobody knows what the path bears.
func (s *State) Reset(ctl Control) {
	*s = State{threshold: MaxWindow}
	s.endpoint.reset()
	ctl.start(s)
	s.apply(0)
}

// apply makes Packets and the gap follow from the windows: the least of them counts.
func (s *State) apply(smoothed time.Duration) {
	w := min(s.window, s.endpoint.window, s.flight.cap())
	if w >= Unit {
		s.Packets, s.pacing.gap = w/Unit, 0
		return
	}
	s.Packets = 1
	s.pacing.gap = min(smoothed*Unit/time.Duration(max(w, MinWindow)), maxGap)
}

// Full says whether nothing more may be sent now, with so many packets in flight.
func (s *State) Full(inFlight int, now clock.Time) bool {
	return inFlight >= s.Packets || s.pacing.waits(now)
}

// Held notes that a packet had to wait because Full said so.
func (s *State) Held(now clock.Time) { s.limitedAt = now }

// Delivered notes that n packets reached the peer, or that it answered with n.
func (s *State) Delivered(n int) {
	s.batch.packets += n
	s.good += n
}

// Marked notes that a router marked n of our packets.
func (s *State) Marked(n int) { s.batch.marks += n }

// Sample notes one round trip, without our own part of it. The least of a receive batch counts.
func (s *State) Sample(d time.Duration) {
	if b := &s.batch; b.delay == 0 || d < b.delay {
		b.delay = d
	}
}

// Conclude lets the controller draw conclusions from what was noted in a receive batch. It returns the least round trip of a path that
// became longer, else zero.
func (s *State) Conclude(ctl Control, p Path) (longer time.Duration) {
	b := &s.batch
	b.Path, b.round = p, p.Smoothed
	if d := s.delay.filtered; d > 0 {
		b.round = min(d+b.Own, b.Smoothed)
	}
	s.flight.acked(b)
	longer = ctl.acked(s, b)
	s.apply(b.Smoothed)
	s.batch = batch{}
	return longer
}

// Discard drops what was noted in a receive batch.
func (s *State) Discard() { s.batch = batch{} }

// Lost takes in that a packet was lost. The controller hears of it at most once per round trip.
func (s *State) Lost(ctl Control, now clock.Time, smoothed time.Duration) {
	s.lost++
	if now.Sub(s.lossAt) <= smoothed {
		return
	}
	s.lossAt = now
	ctl.lost(s, s.lost, s.good)
	s.lost, s.good, s.before = 0, 0, 0 // a time-out before a loss was one
	s.apply(smoothed)
}

// TimedOut takes in a retransmission time-out.
func (s *State) TimedOut(ctl Control, smoothed time.Duration) {
	ctl.timedOut(s)
	s.apply(smoothed)
}

// Undo takes back a time-out that was not one (RFC 3522). It reports whether there was one to take back.
func (s *State) Undo() bool {
	if s.before == 0 {
		return false
	}
	if s.before > s.window {
		s.window, s.threshold = s.before, MaxWindow
		s.Packets, s.pacing.gap = max(min(s.window, s.endpoint.window, s.flight.cap())/Unit, 1), 0
	}
	s.before = 0
	return true
}

// Load takes in how full the peer's receive memory is: 0 for as it should be, 255 for about to drop packets.
func (s *State) Load(now clock.Time, load uint8, smoothed time.Duration) {
	s.endpoint.heard(now, load, smoothed)
	s.apply(smoothed)
}

// Repack makes the window follow a larger packet: it does not grow in bytes (RFC 8899 §3), but is no smaller than that of a
// connection that begins with such packets.
func (s *State) Repack(from, to int, smoothed time.Duration) {
	s.window = max(s.window*from/to, min(s.window, InitialWindow*Unit))
	s.before = 0
	s.apply(smoothed)
}

// Window is the window for the network, in 1/Unit of a packet.
func (s *State) Window() int { return s.window }

// Delay is the filtered round trip, without our own part of it; zero before the first sample.
func (s *State) Delay() time.Duration { return s.delay.filtered }

// EndpointWindow is the window for the receiver, in 1/Unit of a packet.
func (s *State) EndpointWindow() int { return s.endpoint.window }

// LimitedByEndpoint says that the receiver's window is the least.
func (s *State) LimitedByEndpoint() bool { return s.endpoint.window < min(s.window, s.flight.cap()) }

// Valid says that the windows are within their bounds.
func (s *State) Valid() bool {
	return s.Packets >= 1 && s.Packets <= MaxPackets && s.pacing.gap >= 0 && s.window >= MinWindow && s.flight.packets >= 0
}

// grow adds what n acknowledged packets are worth: themselves in slow start, their part of one packet per round trip
// afterwards. A window of less than a packet grows by a whole one with every acknowledgement, as Swift's does. A step in
// proportion to the window is calmer, but makes no shares equal: 8 to 16 flows of less than a packet each had Jain indices
// of 0.84 and 0.70 in simulation; now both 0.97.
func (s *State) grow(n int) {
	if s.window < s.threshold {
		s.window = min(s.window+n*Unit, s.threshold)
		return
	}
	s.window = min(s.window+n*Unit*Unit/max(s.window, Unit), MaxWindow)
}

// limited says whether the window held packets back in the last round trip, or an eighth of one before: with one packet in flight
// the last time is exactly one ago. A window that did not may neither grow, because nobody knows whether the path bears more,
// nor shrink below where it began, because it holds nothing back.
func (s *State) limited(b *batch) bool {
	return b.Now.Sub(s.limitedAt) <= b.Smoothed+b.Smoothed/8+s.pacing.gap
}
