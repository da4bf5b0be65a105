package xdp

// fillLevel decides how many frames the fill ring holds. More frames last longer while this process pauses. Fewer frames stay in
// the processor's cache: the kernel takes the oldest frame for each packet, so it cycles through all frames of the ring. Measured
// on veth in generic mode, one stream, 2 MiB of L2 cache: with packets of 64 KiB, 32 Gb/s with 1024 frames and 23 Gb/s with 8192;
// with packets of 1500 bytes, 6.9 and 5.6 Gb/s.
//
// This applies to copy mode. In zero-copy mode the driver receives all packets of the queue into these frames, so the ring always
// gets all of them (fix).
//
// The level starts in the middle. It doubles if a refill finds the ring nearly empty, which is before packets are lost. It falls
// slowly while it is not needed.
type fillLevel struct {
	now, min, max uint32
	lowest        uint32 // fewest frames found after the last decision to lower the level
	refilled      uint32 // frames refilled after this decision
	held          uint32 // frames in the ring when it was last read
	taken         uint32 // frames received after that
	primed        bool   // the ring was filled at least once
}

const (
	// minFillLevel holds 60 packets of 64 KiB: twice what a peer of this library sends with one system call.
	minFillLevel = 1024
	// firstFillLevel holds a peer's first burst, an initial window: 64 packets of 64 KiB in 17 frames each.
	firstFillLevel = 2 * minFillLevel
	// fillLevelPeriod is how many times the frames of the level must be used before the level may fall.
	fillLevelPeriod = 64
	// RefillBatch is the least number of missing frames that is worth publishing if the ring has many. A caller that has recycled
	// everything may still miss this many frames.
	RefillBatch = 64
)

func newFillLevel(slots uint32) fillLevel {
	first := min(firstFillLevel, slots)
	return fillLevel{now: first, min: min(minFillLevel, slots), max: slots, lowest: first}
}

// fix sets the level to all frames permanently.
func (l *fillLevel) fix() { l.now, l.min, l.held, l.primed = l.max, l.max, 0, true }

// wait reports whether the ring need not be read yet: it was well filled, and few packets were received after that.
func (l *fillLevel) wait() bool {
	return l.primed && l.now >= 4*RefillBatch && l.held >= l.now/2 && l.taken < RefillBatch
}

// looked records how many frames the ring holds now.
func (l *fillLevel) looked(held uint32) { l.held, l.taken = held, 0 }

// missing returns how many frames to add to the ring, which holds left.
func (l *fillLevel) missing(left uint32) uint32 {
	if !l.primed {
		l.primed = true
		return l.now
	}
	l.decide(left)
	if left >= l.now {
		return 0
	}
	n := l.now - left
	if n < RefillBatch && l.now >= 4*RefillBatch {
		return 0
	}
	l.refilled += n
	return n
}

// decide raises or lowers the level.
func (l *fillLevel) decide(left uint32) {
	l.lowest = min(l.lowest, left)
	switch {
	case left < l.now/4 && l.now < l.max:
		l.now = min(2*l.now, l.max)
		l.lowest, l.refilled = l.now, 0
	case l.refilled >= fillLevelPeriod*l.now:
		if l.lowest > l.now/4*3 {
			l.now = max(l.now/2, l.min)
		}
		l.lowest, l.refilled = l.now, 0
	}
}
