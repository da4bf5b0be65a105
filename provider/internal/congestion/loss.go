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
	// nearPeak in tenths: a queue is near the longest one lately.
	nearPeak = 7
	// foreignRounds is how many round trips long loss is not taken for a full buffer after some that came while the window did not grow: it
	// has another cause then.
	foreignRounds = 32
	// holdPackets: after loss that was congestion a window of W packets waits holdPackets/W round trips, at most maxHold, before it grows again. It probes for
	// the end of the queue by losing, and small windows come there every few round trips: in a queue of three packets 10 % were lost.
	holdPackets = 100
	maxHold     = 24
)

// lossSignal decides what loss means.
type lossSignal struct {
	lost, good int           // bytes since the last reaction
	at         clock.Time    // of the last reaction
	holdUntil  clock.Time    // no growth before
	peak, low  time.Duration // the longest queue lately, and the shortest since the last cut
	foreign    clock.Time    // until then a full buffer is not believed in
	decayAt    clock.Time
}

// note follows the longest queue, which fades in 256 round trips.
func (l *lossSignal) note(b *batch, queue time.Duration) {
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

// react takes in the losses of a batch, at most once per round trip.
func (l *lossSignal) react(s *State, b *batch) {
	l.lost += b.lost
	l.good += b.delivered
	if b.lost == 0 || b.Now.Sub(l.at) <= b.Smoothed {
		return
	}
	if b.Now < l.holdUntil && b.Now.Sub(l.at) > 2*b.Smoothed {
		l.foreign = b.Now.Add(foreignRounds * b.round)
	}
	l.at = b.Now
	d := &s.delay
	queue := max(b.delay, d.filtered) - s.Base()
	total := l.lost + l.good
	// A queue that never comes to the target is bounded by its buffer. When it is longer, the target bounds it, and then loss
	// near the peak tells nothing. A delay that does not fall after a cut is no queue of ours.
	aimed := d.target - s.Base() - b.Own
	full := b.Now >= l.foreign && l.low*5 < l.peak*4 && l.peak > max(s.Base()/8, 5*time.Microsecond) &&
		(queue*10 >= l.peak*nearPeak && (l.peak < aimed*9/10 || d.rivals) || queue*20 >= l.peak*19 && l.peak < aimed*5/4)
	switch {
	case l.lost*lossShare > total, full, d.filtered > d.target:
		s.window = max(s.window*lossKeep/10, s.packet)
		l.low = queue
		l.holdUntil = b.Now.Add(b.round * time.Duration(min(holdPackets*s.packet/max(s.window, s.packet), maxHold)))
	default:
		s.window = max(s.window-int(int64(s.window)*int64(l.lost)/int64(total)), s.packet)
	}
	s.threshold = min(s.threshold, s.window)
	s.delay.speed = 0
	l.lost, l.good, s.before = 0, 0, 0
}
