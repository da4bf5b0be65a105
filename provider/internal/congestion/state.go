package congestion

import (
	"math/bits"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Windows are in bytes of packets, over both spaces.
const (
	// InitialWindow: 32 connections that begin at once put 0.6 MB into one switch port, 0.5 ms of a 10 Gb/s link and below the least
	// time-out. It is two packets at least.
	InitialWindow = 16 * wire.MinPacket
	// MaxWindow is beyond every path: 80 ms of 100 Gb/s.
	MaxWindow = 1 << 30
	// leastShare bounds a window from below: a packet in 16 round trips. Swift goes down to 100 (SIGCOMM 2020); on shared machines a
	// round trip is sometimes milliseconds, and 100 of them hung an application.
	leastShare = 16
	// maxGap bounds pacing. It is below the least time-out, so that pacing never looks like loss.
	maxGap = time.Millisecond
)

// Control decides over the window for the network. It keeps nothing: what a connection needs is in its State, so that a
// connection costs no pointer and no allocation. It is called once per batch of acknowledgements, never per packet.
type Control interface {
	// start sets the first window.
	start(s *State)
	// heard takes in what one receive batch told.
	heard(s *State, b *batch)
	// timedOut is called on every retransmission time-out.
	timedOut(s *State)
}

// Path is what else the engine knows when a receive batch is over.
type Path struct {
	Now      clock.Time
	Own      time.Duration // the part of the round trip that is our own work
	Smoothed time.Duration // the round trip as recovery sees it, interruptions and all
	Idle     bool          // nothing is in flight: until the next packet leaves, no answer is awaited
}

// batch is what one receive batch told a connection.
type batch struct {
	Path
	round     time.Duration // the round trip without interruptions
	delivered int           // bytes newly acknowledged, or delivered to us as answers to READs
	lost      int           // bytes taken for lost
	lostAt    clock.Time    // when the newest of them left
	marks     int           // packets that arrived with a congestion mark
	delay     time.Duration // the least round trip among the samples, without our own part; zero for none
	left      clock.Time    // when that packet left
	full      bool          // it is of nearly the full size
	held      time.Duration // how long a packet and its acknowledgement waited at the ends; zero when nothing says so
}

// State is what the sending side of a connection knows about its network: how much may be in flight, and from when on. A method that
// changes something ends with Window and the gap between packets set.
type State struct {
	Window int    // bytes that may be in flight
	Ask    uint64 // an acknowledgement is asked for when a packet number has none of these bits
	packet int    // bytes of a full packet
	pacing pacing

	window    int        // for the network, as the controller decides
	threshold int        // slow start ends here
	before    int        // window before the last time-out, to undo it; zero when there is none
	credit    int        // what growth is worth, in packets times bytes, and did not make a byte yet
	limitedAt clock.Time // when a packet last had to wait for the window

	round     time.Duration // the newest round trip without interruptions
	held      time.Duration // filtered: how long packets and acknowledgements wait at the ends
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

// Reset begins anew with packets of so many bytes: nobody knows what the path bears.
func (s *State) Reset(ctl Control, packet int) {
	*s = State{threshold: MaxWindow, packet: max(packet, wire.MinPacket)}
	s.endpoint.reset()
	s.allowance.most = firstMost
	ctl.start(s)
	s.apply(0)
}

// apply makes Window and the gap follow from the windows: the least of them counts.
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

// An acknowledgement lets as many packets go as it tells of, in one burst. So that bursts are no longer than an eighth of the window,
// which a shallow buffer takes, they are asked for as often. Windows of askMost*askPart packets and more need no more of them.
const (
	askPart = 8
	askMost = 64
)

// ask is the mask of packet numbers for a window of so many packets.
func ask(packets int) uint64 {
	return 1<<(bits.Len(uint(min(max(packets/askPart, 1), askMost)))-1) - 1
}

func (s *State) leastWindow() int { return s.packet / leastShare }

// Full says whether another full packet must wait, with so many bytes in flight. The first one never does for the window.
func (s *State) Full(inFlight int, now clock.Time) bool {
	return inFlight > 0 && inFlight+s.packet > s.Window+s.allowance.bytes || s.pacing.waits(now)
}

// Held notes that a packet had to wait because Full said so.
func (s *State) Held(now clock.Time) { s.limitedAt = now }

// Delivered notes that so many bytes of packets reached the peer, or that it answered with as many.
func (s *State) Delivered(bytes int) { s.batch.delivered += bytes }

// Lost handles the loss of so many bytes of packets sent at that time. Losses of packets sent before the window last reacted to loss are
// ignored.
func (s *State) Lost(bytes int, at clock.Time) {
	if at >= s.losses.at {
		s.batch.lost += bytes
		s.batch.lostAt = max(s.batch.lostAt, at)
	}
}

// Found handles the arrival of a packet sent at that time that had been declared lost.
func (s *State) Found(at clock.Time) {
	if at < s.losses.at {
		s.losses.found(s)
	}
}

// Marked notes that a router marked n of our packets.
func (s *State) Marked(n int) {
	s.batch.marks += n
	s.marks.tell(n)
}

// Arrived notes that a packet of ours with contents arrived.
func (s *State) Arrived() { s.marks.arrive() }

// HeldAtEnds notes how long a packet waited for the peer, and its acknowledgement for us. The longest of a receive batch counts.
func (s *State) HeldAtEnds(d time.Duration) {
	s.batch.held = max(s.batch.held, min(max(d, 1), maxHeld)) // zero is that nothing says how long
}

// heldPart is the weight of one of these times in their mean.
const heldPart = 8

// maxHeld bounds that time: some slices of a scheduler.
const maxHeld = 50 * time.Millisecond

// Sample notes the round trip of a packet of so many bytes that left at that time, without our own part of it. The least of a receive batch counts.
func (s *State) Sample(d time.Duration, bytes int, left clock.Time) {
	if left < s.allowance.ignored {
		return
	}
	if b := &s.batch; b.delay == 0 || d < b.delay {
		b.delay, b.left, b.full = d, left, 8*bytes >= 7*s.packet
	}
}

// Conclude lets the controller draw conclusions from what was noted since the last call.
func (s *State) Conclude(ctl Control, p Path) {
	b := &s.batch
	b.Path, b.round = p, p.Smoothed
	if d := s.delay.filtered; d > 0 && !s.response.ignored { // whose samples have a bound, which a full buffer exceeds
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
	if s.held > absent { // as long as it takes from a packet to the next one that it makes room for
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

// Discard drops what was noted since the last conclusion.
func (s *State) Discard() { s.batch = batch{} }

// TimedOut takes in a retransmission time-out.
func (s *State) TimedOut(ctl Control, smoothed time.Duration) {
	ctl.timedOut(s)
	s.allowance.stop()
	s.apply(smoothed)
}

// Undo takes back a time-out that was not one (RFC 3522). It reports whether there was one to take back.
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

// Load takes in how full the peer's receive memory is: 0 for as it should be, 255 for about to drop packets.
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
	if s.threshold == MaxWindow { // nothing says how much the path bears
		s.window = max(s.window, s.firstWindow())
	}
	s.before = 0
	s.apply(smoothed)
}

// Elsewhere takes in that packets take another way from now on, which has another least round trip.
func (s *State) Elsewhere() {
	s.path = path{}
	s.delay.now, s.delay.last, s.delay.filtered = 0, 0, 0
}

// Packets muchLonger than those of the handshake take much longer on slow links.
const muchLonger = 2

func (s *State) firstWindow() int { return max(InitialWindow, 2*s.packet) }

// NetworkWindow is the window for the network, in bytes. It may be less than a packet, which pacing then serves.
func (s *State) NetworkWindow() int { return s.window }

// Delay is the filtered round trip, without our own part of it; zero before the first sample.
func (s *State) Delay() time.Duration { return s.delay.filtered }

// Base is the least round trip of the last seconds; zero before the first sample.
func (s *State) Base() time.Duration { return s.path.base }

// queue is the part of a round trip that loss is compared with: the part beyond the least round trip of any packet. Measured from the least
// of full packets, a queue of a packet or two would look like none, and so would a buffer that holds no more.
func (s *State) queue(d time.Duration) time.Duration { return d - s.path.all.value() }

// EndpointWindow is the window for the receiver, in bytes.
func (s *State) EndpointWindow() int { return s.endpoint.window }

// LimitedByEndpoint says that the receiver's window is the least.
func (s *State) LimitedByEndpoint() bool { return s.endpoint.window < s.window }

// Valid says that the windows are within their bounds.
func (s *State) Valid() bool {
	return s.packet >= wire.MinPacket && s.Window >= s.packet && s.Window <= MaxWindow && s.pacing.gap >= 0 && s.window >= s.leastWindow()
}

// grow adds to the window for acknowledged bytes: the same number of bytes in slow start, and later their part of packets per round trip. A
// window below a packet grows by a whole packet with every acknowledgement, as in Swift. A step in proportion to the window is calmer but
// does not equalize shares: in simulation, 8 to 16 flows below one packet each had Jain indices of 0.84 and 0.70 with it, and 0.97 without.
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

// limited says whether the window blocked packets in the last round trip, or an eighth of a round trip before: with one packet in flight,
// the last time is exactly one round trip ago. Time during which packets waited at the ends counts: with so few in flight that the peer
// waits for more, nothing is sent meanwhile. A window that did not limit must not grow, because it is unknown whether the path bears more.
// It must not shrink below its initial size either, because it blocks nothing.
func (s *State) limited(b *batch) bool {
	return b.Now.Sub(s.limitedAt) <= b.Smoothed+b.Smoothed/8+s.pacing.gap+b.held
}
