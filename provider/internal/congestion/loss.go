package congestion

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// lossKeep is the part of the window, in tenths, that remains after loss from congestion (RFC 9438).
	lossKeep = 7
	// lossShare: a loss of more than 1/lossShare of the packets is congestion, whatever the delay. A smaller loss may be the link's
	// own.
	lossShare = 8
	// heavyPackets is the number of lost packets up to which their share is not significant.
	heavyPackets = 2
	// nearPeak: a queue of nearPeak/10 of the longest recent queue counts as close to it.
	nearPeak = 7
	// visible: the longest recent queue is visible if it exceeds 1/visible of the least round trip.
	visible = 64
	// leastPeak is the shortest visible queue.
	leastPeak = 5 * time.Microsecond
	// foreignRounds is the number of round trips for which loss without a queue does not count as congestion, after the trial of
	// smaller windows was in vain. The number doubles each time, up to foreignMost.
	foreignRounds = 32
	foreignMost   = 1024
	enoughFull    = 5 // enoughCuts if a full queue suggested congestion
	// vainRounds is the least duration of such a trial in round trips. Another growing flow takes the room that the cuts make, by a
	// packet in two round trips, until it loses packets itself.
	vainRounds = 32
	// foreignPart: a trial says nothing until the window is smaller by this factor.
	foreignPart = 2
	// foreignPackets is the number of packets after which the share of loss is compared with the earlier share.
	foreignPackets = 256
	// fewPackets is a window so small that a full buffer takes one packet at a time.
	fewPackets = 8
	// enoughCuts is the number of successive cuts after which a window that was too large would lose nothing more: they leave a
	// third of it.
	enoughCuts = 3
	// holdPackets: after loss from congestion, a window of W packets does not grow for about holdPackets/W round trips, at most
	// maxHold. Each probe for the end of the queue loses packets, and small windows reach the end every few round trips. In a queue
	// of three packets, 10 % were lost without this wait.
	holdPackets = 400
	maxHold     = 96
	// firstHold is the wait in round trips after the end of slow start and after heavy loss. Both overshoot far, so they do not
	// tell where the queue ends.
	firstHold = 2
)

// lossSignal decides whether loss means congestion.
type lossSignal struct {
	lost, good int           // bytes after the last reaction
	at         clock.Time    // time of the last reaction
	holdUntil  clock.Time    // the window does not grow before
	peak, low  time.Duration // the longest recent queue, and the shortest after the last cut
	now, last  time.Duration // longest queue of this round trip, and of the previous one
	roundAt    clock.Time    // beginning of this round trip
	foreign    clock.Time    // until then, loss without a queue does not count as congestion
	rounds     int           // length of this time in round trips
	cuts       int           // cuts of the present trial
	origin     int           // window before the trial
	began      clock.Time    // beginning of the trial
	was        int           // window before the last cut; zero if the cut was undone
	share      int           // share of bytes lost in the trial, in 1/1024
	triedLost  int           // bytes after the trial began, or after the last comparison of shares
	triedGood  int
	decayAt    clock.Time
}

// note tracks the longest queue, which decays over 256 round trips.
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

// react handles the losses of a batch. It reacts once for all packets that left before the reaction.
func (l *lossSignal) react(s *State, b *batch) {
	l.lost += b.lost
	l.good += b.delivered
	l.triedLost += b.lost
	l.triedGood += b.delivered
	if b.lost == 0 {
		return
	}
	total := l.lost + l.good
	// After a drain the window grows back in bursts. A shallow buffer does not take them, but this says nothing about its size.
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

// full reports whether the lost packet met a full buffer. If the queue never reaches the target, its buffer bounds it. If the queue
// is longer, the target bounds it, and loss near the peak means nothing. A delay that does not fall after a cut is not this flow's
// queue, but with few packets the fall is not visible.
func (l *lossSignal) full(s *State, b *batch) bool {
	if !l.seesQueue(s) {
		return false
	}
	aimed, queue := s.delay.target-s.Base()-b.Own, max(l.now, l.last)
	return (l.low*5 < l.peak*4 || s.window < fewPackets*s.packet) &&
		(queue*10 >= l.peak*nearPeak && (l.peak < aimed*9/10 || s.response.ignored) || queue*20 >= l.peak*19 && l.peak < aimed*5/4)
}

// seesQueue reports whether a queue is visible that loss can be compared with.
func (l *lossSignal) seesQueue(s *State) bool { return l.peak > max(s.Base()/visible, leastPeak) }

// trial tests whether loss means congestion: after congestion, smaller windows lose nothing more, while a lossy link goes on
// losing. It returns whether to reduce the window. If reductions were in vain, it restores the window. Loss while the queue is not
// full is not congestion. Without a visible queue, a policer or a buffer of few packets may cause the loss.
func (l *lossSignal) trial(s *State, b *batch, full bool) bool {
	enough := enoughCuts
	if full {
		enough = enoughFull
	}
	switch {
	case l.seesQueue(s) && !full:
		return false
	case b.Now < l.foreign:
		// More than twice the earlier share has another cause.
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

// cut reduces the window because of congestion. If a window of few packets meets a full buffer, it is reduced by one packet.
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
		s.cubic.from = 0 // delay bounds the window
	} else {
		s.cubic.cut(was, s.window, s.packet, l.holdUntil)
	}
	s.threshold = min(s.threshold, s.window)
}

// found handles the late arrival of a packet that was declared lost, and undoes the cut for it. If a time-out came after the cut,
// the window stays as the time-out set it. If this time-out proves spurious, too, the window before the cut is restored.
func (l *lossSignal) found(s *State) {
	switch {
	case s.before > 0:
		s.before = max(s.before, l.was)
	case l.was > s.window:
		s.window, s.cubic.from, l.holdUntil = l.was, 0, 0
	}
	l.was = 0
}
