package provider

import (
	"math/bits"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The delay controller is after Swift (SIGCOMM 2020): it adds a packet per round trip while the round trip is below a
// target, and takes away in proportion to how far it is above, at most half and at most once per round trip.
const (
	// minQueueing is the least delay in queues that is aimed at. A guess for machines that share cores that held: in
	// simulation it gives full use of a link of 1 Gb/s with 2 to 16 flows.
	minQueueing = 50 * time.Microsecond
	// betaNum/betaDen is the strength of the decrease (Swift: 0.8); maxDecrease halves.
	betaNum, betaDen = 4, 5
	// scaleRange bounds what flow scaling adds to the aimed delay, in quarters of it: small windows are the sign of many
	// flows, which need a longer queue to share. Swift allows five times as much as the aimed delay; with once, 16 flows on a
	// path of 35 packets have a Jain index of 0.998 and a median delay of 1.6 targets, which may not be above 2.
	scaleRange = 4
	// maxOver bounds one sample, in targets: a peer that was off its core for milliseconds is no queue, and shows once; a
	// queue shows in every sample.
	maxOver = 4
	// lossShare: with the delay below the target, loss halves the window only if it took more than an eighth of the packets.
	// Less is what links do by themselves.
	lossShare = 8
)

// delaySignal is the filtered round trip and what it is compared with.
type delaySignal struct {
	delay     time.Duration // filtered
	target    time.Duration
	scale     int // of the window scaledFor: a root takes longer than all else here
	scaledFor int
	reducedAt clock.Time
	// At the smallest window: round trips in a row that were above the target all the same, and the least of them.
	stuck    int
	steady   int // of them, within minQueueing of the least
	leastNow time.Duration
}

// stuckRounds is how many reductions in a row the smallest window may see, without one round trip below the target between,
// before the least round trip ever counts as a thing of the past: a packet in 16 round trips makes no queue, so the path itself
// takes longer than it did, if half of them are alike. Others' queue is not: it comes and goes by packets. 32 flows that each have
// the smallest window keep 2 ms of queue in front of a link of 200 Mb/s; not asked whether they are alike, they took it for the path, and some
// finished in a quarter of the others' time. With 32, 8 flows that share a path
// of less than a packet each took each other for the path (Jain index 0.4; 0.99 with 128). After a change from 0.2 to 2 ms it is found out
// within a second in simulation; before, the connection kept the smallest window for ever.
const stuckRounds = 128

// floored notes a reduction that found the window at its smallest, and returns the least round trip of a path that must have
// become longer; else zero.
func (s *delaySignal) floored(delay time.Duration) time.Duration {
	switch {
	case s.stuck == 0 || delay < s.leastNow-minQueueing:
		s.leastNow, s.steady = delay, 0
	case delay < s.leastNow:
		s.leastNow = delay
	}
	if delay <= s.leastNow+minQueueing {
		s.steady++
	}
	if s.stuck++; s.stuck < stuckRounds {
		return 0
	}
	s.stuck = 0
	if s.steady < stuckRounds/2 {
		return 0
	}
	return s.leastNow
}

// delayControl is ControlDelay.
type delayControl struct{}

func (*delayControl) start(cc *congestion) { cc.fabric = initialWindow * windowUnit }

// target is the round trip aimed at for a window.
func target(base, own time.Duration, scale int) time.Duration {
	q := max(minQueueing, base)
	return base + own + q + q*time.Duration(scale)/(4*windowUnit)
}

// scale is the part flow scaling adds, in 1/windowUnit: scaleRange/sqrt(window in packets), at most scaleRange.
func scale(fabric int) int {
	if fabric <= windowUnit {
		return scaleRange * windowUnit
	}
	return scaleRange * windowUnit * 256 / isqrt(fabric)
}

// isqrt is the integer square root, from above (Newton).
func isqrt(v int) int {
	x := 1 << ((bits.Len(uint(v)) + 1) / 2)
	for {
		y := (x + v/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// acked implements controller.
func (*delayControl) acked(cc *congestion, b *ackBatch) {
	s := &cc.signal
	if b.delay > 0 {
		s.sample(b, cc.fabric)
	}
	if cc.fabric > minFabric || b.delay > 0 && b.delay <= s.target {
		s.stuck = 0
	}
	cc.marks.acked(cc, b)
	switch {
	case s.delay > s.target && s.target > 0:
		cc.threshold = min(cc.threshold, cc.fabric) // slow start is over
		if b.now.Sub(s.reducedAt) > b.round && (cc.limited(b) || cc.fabric > initialWindow*windowUnit) {
			s.reducedAt = b.now
			if cc.fabric == minFabric && b.delay > s.target {
				b.longer = s.floored(b.delay)
			}
			over := min((s.delay-s.target)*betaNum*windowUnit/(s.delay*betaDen), windowUnit/2)
			cc.fabric = max(cc.fabric-int(over)*cc.fabric/windowUnit, minFabric)
			cc.before = 0
		}
	case b.packets > 0 && b.marks == 0 && cc.limited(b):
		cc.grow(b.packets)
	}
}

// sample filters a round trip. The weight is about one in the number of batches per round trip, and 1/8 at the least: with
// small windows a slower filter would still show a queue that is long gone, and the window be halved for it again.
func (s *delaySignal) sample(b *ackBatch, fabric int) {
	if s.scaledFor != fabric {
		s.scale, s.scaledFor = scale(fabric), fabric
	}
	s.target = target(b.base, b.own, s.scale)
	d := min(b.delay, maxOver*s.target)
	if s.delay == 0 {
		s.delay = d
		return
	}
	s.delay += (d - s.delay) >> min(bits.Len(uint(fabric/windowUnit)), 3)
}

// lost implements controller. Above the target loss is congestion and halves the window. Below it the window only gives up
// what was lost, unless that is a good part: with 1 % of random loss, halving left 60 % of a link unused.
func (*delayControl) lost(cc *congestion, lost, delivered int) {
	s := &cc.signal
	part := windowUnit / 2
	if s.delay <= s.target && lost*lossShare <= lost+delivered {
		part = lost * windowUnit / (lost + delivered)
	}
	cc.fabric = max(cc.fabric-part*cc.fabric/windowUnit, windowUnit)
	cc.threshold = min(cc.threshold, cc.fabric)
}

// timedOut implements controller: one packet, and slow start up to half of what was.
func (*delayControl) timedOut(cc *congestion) {
	if cc.fabric > windowUnit {
		cc.before = cc.fabric
		cc.threshold = max(cc.fabric/2, 2*windowUnit)
	}
	cc.fabric = windowUnit
}

// markSignal is DCTCP's (RFC 8257): the window shrinks by half of the share of packets that were marked. Only connections
// whose ends agreed to it (PROTOCOL §7.1) send packets that can be marked.
type markSignal struct {
	alpha     int // share of marked packets, in 1/windowUnit
	marked    int // in this round trip
	delivered int
	from      clock.Time
}

// markGain is g = 1/16 (RFC 8257 §4.2).
const markGain = 16

func (m *markSignal) acked(cc *congestion, b *ackBatch) {
	if b.marks == 0 && m.marked == 0 && m.alpha < markGain {
		return
	}
	m.marked += b.marks
	m.delivered += b.packets
	if b.marks > 0 {
		cc.threshold = min(cc.threshold, cc.fabric)
	}
	if b.now.Sub(m.from) <= b.round || m.delivered == 0 {
		return
	}
	share := min(m.marked*windowUnit/m.delivered, windowUnit)
	m.alpha += share/markGain - m.alpha/markGain
	if m.marked > 0 {
		cc.fabric = max(cc.fabric-cc.fabric*m.alpha/(2*windowUnit), minFabric)
	}
	m.marked, m.delivered, m.from = 0, 0, b.now
}
