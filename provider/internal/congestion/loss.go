package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// lossKeep of a window in tenths are left after loss that is congestion (RFC 9438).
	lossKeep = 7
	// lossShare: loss of more than an eighth of the packets is congestion whatever the delay says. Less is what links do by themselves.
	lossShare = 8
	// heavyPackets: so few say nothing about a share.
	heavyPackets = 2
	// nearPeak in tenths: a queue is near the longest one lately.
	nearPeak = 7
	// visible: a longest queue of this part of the least round trip can be told from none.
	visible = 64
	// leastPeak is the least that can.
	leastPeak = 5 * time.Microsecond
	// foreignRounds is for how many round trips loss without a queue does not count as congestion, after this loss occurred while the
	// window did not grow, and so has another cause. The time doubles when that shows again, up to foreignMost.
	foreignRounds = 32
	foreignMost   = 1024
	enoughFull    = 5 // when a queue said so
	// vainRounds is how long cuts go on then at the least. Another flow that grows takes the room that they make, by a packet in two round trips, until it loses packets itself.
	vainRounds = 32
	// foreignPart: a window that is not this much smaller than before shows nothing.
	foreignPart = 2
	// foreignPackets is after how many packets loss is compared with what it was.
	foreignPackets = 256
	// fewPackets are a window that loses a packet at a time.
	fewPackets = 8
	// enoughCuts in a row leave a third of a window, which would lose nothing more if that had been too large.
	enoughCuts = 3
	// holdPackets: after loss that was congestion a window of W packets waits about holdPackets/W round trips, at most maxHold, before it grows again. It probes for
	// the end of the queue by losing, and small windows come there every few round trips: in a queue of three packets 10 % were lost.
	holdPackets = 400
	maxHold     = 96
	// firstHold: slow start ends far beyond the end of the queue, and much loss is far beyond it, so that nothing is known of where that is.
	firstHold = 2
)

// lossSignal decides what loss means.
type lossSignal struct {
	lost, good int           // bytes since the last reaction
	at         clock.Time    // of the last reaction
	holdUntil  clock.Time    // no growth before
	peak, low  time.Duration // the longest queue lately, and the shortest since the last cut
	now, last  time.Duration // longest queue of this round trip, and of the one before
	roundAt    clock.Time    // when this one began
	foreign    clock.Time    // until then loss without a queue is not ours
	rounds     int           // how long that was
	cuts       int           // of this trial
	origin     int           // the window before it
	began      clock.Time    // when it began
	was        int           // the window before the last cut; zero when that was taken back
	share      int           // of what was lost in it, in 1/1024
	triedLost  int           // bytes since it began, or since the share was looked at last
	triedGood  int
	decayAt    clock.Time
}

// note follows the longest queue, which fades in 256 round trips.
func (l *lossSignal) note(b *batch, queue time.Duration) {
	if b.Now.Sub(l.roundAt) > b.Smoothed {
		l.now, l.last, l.roundAt = 0, l.now, b.Now
	}
	l.now = max(l.now, queue)
	l.low = min(l.low, queue)
	if queue >= l.peak {
		l.peak, l.decayAt = queue, b.Now
		return
	}
	if since := b.Now.Sub(l.decayAt); since > 4*b.round {
		l.peak -= (l.peak - queue) / 64
		l.decayAt = b.Now
	}
}

// react takes in the losses of a batch, once for all packets that left before it does.
func (l *lossSignal) react(s *State, b *batch) {
	l.lost += b.lost
	l.good += b.delivered
	l.triedLost += b.lost
	l.triedGood += b.delivered
	if b.lost == 0 {
		return
	}
	total := l.lost + l.good
	// The window comes back from a drain in bursts, which a shallow buffer does not take: that is no sign of its size.
	if burst := s.drain.active() || b.Now < s.drain.calmAt; burst && l.lost*lossShare <= total {
		l.lost, l.good = 0, 0
		return
	}
	heavy := l.lost > heavyPackets*s.packet && l.lost*lossShare > total || s.delay.filtered > s.delay.target
	if full := l.full(s, b); heavy || l.trial(s, b, full) {
		l.cut(s, b, full, heavy)
	} else {
		s.window = max(s.window-int(int64(s.window)*int64(l.lost)/int64(total)), s.packet)
		s.threshold = min(s.threshold, s.window)
	}
	l.at = b.Now
	s.delay.speed = 0
	l.lost, l.good, s.before = 0, 0, 0
}

// full says whether the lost packet met a full buffer. A queue that never comes to the target is bounded by its buffer. When it is longer,
// the target bounds it, and then loss near the peak tells nothing. A delay that does not fall after a cut is no queue of
// ours, but with few packets that does not show.
func (l *lossSignal) full(s *State, b *batch) bool {
	if !l.seesQueue(s) {
		return false
	}
	aimed, queue := s.delay.target-s.Base()-b.Own, max(l.now, l.last)
	return (l.low*5 < l.peak*4 || s.window < fewPackets*s.packet) &&
		(queue*10 >= l.peak*nearPeak && (l.peak < aimed*9/10 || s.response.ignored) || queue*20 >= l.peak*19 && l.peak < aimed*5/4)
}

// seesQueue says that there is a queue that loss can be compared with.
func (l *lossSignal) seesQueue(s *State) bool { return l.peak > max(s.Base()/visible, leastPeak) }

// trial determines whether loss means congestion. After congestion, smaller windows lose nothing more; a lossy link goes on losing. It
// returns whether the window is to shrink. If shrinking was in vain, the window is restored. Loss in front of a queue that is not full is
// no congestion; without a visible queue it may come from a policer, or a buffer of few packets.
func (l *lossSignal) trial(s *State, b *batch, full bool) bool {
	enough := enoughCuts
	if full {
		enough = enoughFull
	}
	switch {
	case l.seesQueue(s) && !full:
		return false
	case b.Now < l.foreign:
		// More than twice what was there before and after is not of the same cause.
		total := l.triedLost + l.triedGood
		if total < foreignPackets*s.packet {
			return false
		}
		more := l.triedLost > 2*(total>>10*l.share)+2*s.packet
		l.triedLost, l.triedGood = 0, 0
		if !more {
			return false
		}
		l.foreign = b.Now
		fallthrough
	case b.Now > l.holdUntil:
		l.cuts, l.origin, l.began = 1, s.window, b.Now
		l.triedLost, l.triedGood = 0, 0
		if b.Now.Sub(l.foreign) > b.round*foreignMost {
			l.rounds = 0
		}
		return true
	case l.cuts < enough, s.window*foreignPart > l.origin, full && b.Now.Sub(l.began) < b.round*vainRounds:
		l.cuts++
		return true
	}
	s.window, s.cubic.from = max(s.window, l.origin), 0
	l.share = l.triedLost << 10 / max(l.triedLost+l.triedGood, 1)
	l.triedLost, l.triedGood = 0, 0
	l.rounds = min(max(2*l.rounds, foreignRounds), foreignMost)
	l.foreign, l.holdUntil = b.Now.Add(b.round*time.Duration(l.rounds)), 0
	return false
}

// cut makes the window smaller because of congestion. One of few packets in front of a full buffer loses one of them.
func (l *lossSignal) cut(s *State, b *batch, full, heavy bool) {
	was := s.window
	l.was = was
	s.window = max(was*lossKeep/10, s.packet)
	if full && was < fewPackets*s.packet {
		s.window = max(s.window, min((s.window+s.packet-1)/s.packet*s.packet, was-s.packet))
	}
	l.low = s.queue(max(b.delay, s.delay.filtered))
	hold := min(max(holdPackets*s.packet/s.window-s.window/s.packet/2, 1), maxHold)
	if heavy && !full || s.threshold == MaxWindow {
		hold = firstHold
	}
	l.holdUntil = b.Now.Add(b.round * time.Duration(hold))
	if s.delay.filtered > s.delay.target {
		s.cubic.from = 0 // the delay bounds the window
	} else {
		s.cubic.cut(was, s.window, s.packet, l.holdUntil)
	}
	s.threshold = min(s.threshold, s.window)
}

// found takes in that a packet arrived that counted as lost: it was only late, and a cut for it is taken back. A time-out that came since stands: only
// what it took comes back as it was before the cut, if it was none.
func (l *lossSignal) found(s *State) {
	switch {
	case s.before > 0:
		s.before = max(s.before, l.was)
	case l.was > s.window:
		s.window, s.cubic.from, l.holdUntil = l.was, 0, 0
	}
	l.was = 0
}
