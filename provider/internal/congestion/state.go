package congestion

import (
	"math/bits"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Windows are in bytes of packets, and count both spaces.
const (
	// InitialWindow is at least two packets. If 32 connections begin at once, they put 0.6 MB into one switch port. A link of 10
	// Gb/s carries this in 0.5 ms, which is below the least time-out.
	InitialWindow = 16 * wire.MinPacket
	// MaxWindow is more than any path needs: 80 ms at 100 Gb/s.
	MaxWindow = 1 << 30
	// leastShare is the largest number of round trips for one packet. Swift allows 100 (SIGCOMM 2020). On shared machines a round
	// trip may take milliseconds, and 100 of them would stall an application.
	leastShare = 16
	// maxGap bounds pacing. It is below the least time-out, so that pacing does not look like loss.
	maxGap = time.Millisecond
)

// Control sets the window for the network. It has no state: the state of a connection is in its State, so that a connection needs
// neither pointer nor allocation. It is called once per batch of acknowledgements.
type Control interface {
	// start sets the first window.
	start(s *State)
	// heard handles one receive batch.
	heard(s *State, b *batch)
	// timedOut handles a retransmission time-out.
	timedOut(s *State)
}

// Path is the engine's knowledge about the path at the end of a receive batch.
type Path struct {
	Now      clock.Time
	Own      time.Duration // part of the round trip that engines cause
	Smoothed time.Duration // smoothed round trip of loss recovery, including interruptions
	Idle     bool          // no packet is in flight
}

// batch collects what one receive batch reports for a connection.
type batch struct {
	Path
	round     time.Duration // round trip without interruptions
	delivered int           // bytes newly acknowledged, or received as answers to READs
	lost      int           // bytes declared lost
	lostAt    clock.Time    // when the newest lost packet left
	marks     int           // arrived packets with a congestion mark
	delay     time.Duration // least round trip of the samples, without the time in the two engines; zero without samples
	left      clock.Time    // when the packet of this sample left
	full      bool          // it has nearly the full size
	held      time.Duration // how long a packet and its acknowledgement waited at the ends; zero if unknown
}

// State is a sender's knowledge about its network: how much may be in flight, and when the next packet may leave. Methods that
// change the state also update Window and the pacing gap.
type State struct {
	Window int    // bytes that may be in flight
	Ask    uint64 // mask: a packet requests an acknowledgement if its number has none of these bits
	packet int    // bytes of a full packet
	pacing pacing

	window    int        // window for the network, set by Control
	threshold int        // slow start ends at this window
	before    int        // window before the last time-out, to undo it; zero if there is none
	credit    int        // growth below one byte, in packets times bytes
	limitedAt clock.Time // when the window last blocked a packet

	round     time.Duration // newest round trip without interruptions
	held      time.Duration // smoothed time that packets and acknowledgements wait at the ends
	allowance allowance

	endpoint endpoint
	path     path
	delay    delaySignal
	response response
	drain    drain
	losses   lossSignal
	cubic    cubic
	marks    markSignal
	batch    batch
}

// Reset forgets the path. packet is the size of a full packet.
func (s *State) Reset(ctl Control, packet int) {
	*s = State{threshold: MaxWindow, packet: max(packet, wire.MinPacket)}
	s.endpoint.reset()
	s.allowance.most = firstMost
	ctl.start(s)
	s.apply(0)
}

// apply sets Window and the pacing gap from the smallest of the windows.
func (s *State) apply(smoothed time.Duration) {
	w := s.drain.bound(min(s.window, s.endpoint.window))
	if w >= s.packet {
		s.Window, s.pacing.gap = w, 0
		s.Ask = ask(w / s.packet)
		return
	}
	s.Window, s.Ask = s.packet, 0
	s.pacing.gap = min(smoothed*time.Duration(s.packet)/time.Duration(max(w, s.leastWindow())), maxGap)
}

// An acknowledgement releases as many packets as it acknowledges, in one burst. Acknowledgements are requested so often that a
// burst is at most an eighth of the window, which shallow buffers hold. Windows of askMost*askPart packets or more do not need more
// of them.
const (
	askPart = 8
	askMost = 64
)

// ask returns the mask of packet numbers for a window in packets.
func ask(packets int) uint64 {
	return 1<<(bits.Len(uint(min(max(packets/askPart, 1), askMost)))-1) - 1
}

func (s *State) leastWindow() int { return s.packet / leastShare }

// Full reports whether another full packet must wait, with inFlight bytes in flight. The window never blocks the first packet.
func (s *State) Full(inFlight int, now clock.Time) bool {
	return inFlight > 0 && inFlight+s.packet > s.Window+s.allowance.bytes || s.pacing.waits(now)
}

// Held records that a packet waited because of Full.
func (s *State) Held(now clock.Time) { s.limitedAt = now }

// Delivered records that the peer received, or answered with, bytes of packets.
func (s *State) Delivered(bytes int) { s.batch.delivered += bytes }

// Lost handles the loss of packets that were sent at the given time. Losses of packets sent before the last reaction to loss are
// ignored.
func (s *State) Lost(bytes int, at clock.Time) {
	if at >= s.losses.at {
		s.batch.lost += bytes
		s.batch.lostAt = max(s.batch.lostAt, at)
	}
}

// Found handles the arrival of a packet, sent at the given time, that had been declared lost.
func (s *State) Found(at clock.Time) {
	if at < s.losses.at {
		s.losses.found(s)
	}
}

// Marked records that routers marked n packets of this side.
func (s *State) Marked(n int) {
	s.batch.marks += n
	s.marks.tell(n)
}

// Arrived records that a packet with contents arrived at the peer.
func (s *State) Arrived() { s.marks.arrive() }

// HeldAtEnds records how long a packet waited at the peer, plus its acknowledgement here. The longest of a receive batch counts.
func (s *State) HeldAtEnds(d time.Duration) {
	s.batch.held = max(s.batch.held, min(max(d, 1), maxHeld)) // zero means unknown
}

// heldPart is the weight of one sample of this time in the mean.
const heldPart = 8

// maxHeld bounds one sample of this time: a few scheduler time slices.
const maxHeld = 50 * time.Millisecond

// Sample records the round trip of a packet that left at the given time, without the engines' part. The least of a receive batch
// counts.
func (s *State) Sample(d time.Duration, bytes int, left clock.Time) {
	if left < s.allowance.ignored {
		return
	}
	if b := &s.batch; b.delay == 0 || d < b.delay {
		b.delay, b.left, b.full = d, left, 8*bytes >= 7*s.packet
	}
}

// Conclude passes what was recorded to the controller.
func (s *State) Conclude(ctl Control, p Path) {
	b := &s.batch
	b.Path, b.round = p, p.Smoothed
	if d := s.delay.filtered; d > 0 && !s.response.ignored { // filtered samples are bounded, but a full buffer may exceed the bound
		b.round = min(d+b.Own, b.Smoothed)
	}
	if b.held > 0 {
		s.held += (b.held - s.held) / heldPart
	}
	s.round = b.round
	s.allowance.heard(s, b)
	if p.Idle {
		s.allowance.stop()
	}
	if s.held > absent { // time from a packet to the next packet that its acknowledgement releases
		b.round += s.held
	}
	if b.delay > 0 {
		s.path.sample(b.Now, b.delay, b.round, b.full)
		if s.limited(b) {
			s.path.left(b.round * time.Duration(s.packet) / time.Duration(max(s.window, s.packet)))
		}
		s.path.follow(b.Now, s.packet > muchLonger*wire.MinPacket)
	}
	ctl.heard(s, b)
	s.apply(b.Smoothed)
	s.batch = batch{}
}

// Discard drops what was recorded after the last Conclude.
func (s *State) Discard() { s.batch = batch{} }

// TimedOut handles a retransmission time-out.
func (s *State) TimedOut(ctl Control, smoothed time.Duration) {
	ctl.timedOut(s)
	s.allowance.stop()
	s.apply(smoothed)
}

// Undo undoes a spurious time-out (RFC 3522). It returns false if there is none to undo.
func (s *State) Undo() bool {
	if s.before == 0 {
		return false
	}
	if s.before > s.window {
		s.window, s.threshold = s.before, MaxWindow
		s.Window, s.pacing.gap = max(s.drain.bound(min(s.window, s.endpoint.window)), s.packet), 0
	}
	s.before = 0
	return true
}

// Load handles the peer's report of how full its receive memory is, from 0 to 255 (about to drop packets).
func (s *State) Load(now clock.Time, load uint8, smoothed time.Duration) {
	s.endpoint.heard(now, load, s.packet, s.window, smoothed)
	s.apply(smoothed)
}

// Resize adapts the window to a new packet size. The window keeps its bytes (RFC 8899 §3). During the first slow start it is at least the
// initial window for the new size.
func (s *State) Resize(packet int, smoothed time.Duration) {
	if packet > s.packet {
		s.path.lengthen()
	}
	s.packet = packet
	s.window = max(s.window, s.leastWindow())
	if s.threshold == MaxWindow { // the capacity of the path is unknown
		s.window = max(s.window, s.firstWindow())
	}
	s.apply(smoothed)
}

// Elsewhere forgets the round trip, because packets take another path from now on.
func (s *State) Elsewhere() {
	s.path = path{}
	s.delay.now, s.delay.last, s.delay.filtered = 0, 0, 0
}

// muchLonger: on slow links, packets larger than handshake packets by this factor take much longer.
const muchLonger = 2

func (s *State) firstWindow() int { return max(InitialWindow, 2*s.packet) }

// NetworkWindow returns the window for the network in bytes. If it is less than a packet, pacing applies.
func (s *State) NetworkWindow() int { return s.window }

// Delay returns the filtered round trip without the engines' part, or zero before the first sample.
func (s *State) Delay() time.Duration { return s.delay.filtered }

// Base returns the recent least round trip, or zero before the first sample.
func (s *State) Base() time.Duration { return s.path.base }

// queue returns the part of a round trip that loss is compared with: the excess over the least round trip of packets of any size.
// Measured from the least round trip of full packets, a queue of one or two packets, or a buffer that holds no more, would not be
// visible.
func (s *State) queue(d time.Duration) time.Duration { return d - s.path.all.value() }

// EndpointWindow returns the window for the receiver in bytes.
func (s *State) EndpointWindow() int { return s.endpoint.window }

// LimitedByEndpoint reports whether the receiver's window is the smaller one.
func (s *State) LimitedByEndpoint() bool { return s.endpoint.window < s.window }

// Valid reports whether the windows are within their bounds.
func (s *State) Valid() bool {
	return s.packet >= wire.MinPacket && s.Window >= s.packet && s.Window <= MaxWindow && s.pacing.gap >= 0 && s.window >= s.leastWindow()
}

// grow enlarges the window for acknowledged bytes: by as many bytes in slow start, later by packets per round trip in proportion. A
// window below one packet grows by a whole packet with every acknowledgement, as in Swift. A step in proportion to the window is
// smoother but does not equalize shares. With it, 8 to 16 simulated flows below one packet each had Jain indices of 0.84 and 0.70;
// without it, 0.97.
func (s *State) grow(bytes, packets int) {
	if s.window < s.threshold {
		s.window = min(s.window+bytes, s.threshold)
		return
	}
	s.credit += bytes * packets
	if whole := max(s.window, s.packet); s.credit >= whole/s.packet {
		n := s.credit * s.packet / whole
		s.credit -= n * whole / s.packet
		s.window = min(s.window+n, MaxWindow)
	}
}

// limited reports whether the window blocked packets in the last round trip, or up to an eighth of one earlier. With one packet in
// flight, the last block was exactly one round trip ago. Time that packets wait at the ends counts, too, because nothing is sent
// meanwhile if so few are in flight. A window that did not limit must not grow, because the path may not bear more. Nor does it
// shrink below its initial size, because it blocks nothing.
func (s *State) limited(b *batch) bool {
	return b.Now.Sub(s.limitedAt) <= b.Smoothed+b.Smoothed/8+s.pacing.gap+b.held
}
