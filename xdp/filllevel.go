package xdp

// fillLevel decides how many frames the fill ring holds. More frames survive a longer pause of this process. Fewer frames stay in the
// processor's cache: the kernel takes the oldest frame for every packet, so all frames in the ring are touched in turn. Measured on veth,
// generic mode, one stream, 2 MiB of L2: 1 MiB messages in packets of 64 KiB move at 32 Gb/s with 1024 frames and at 23 Gb/s with 8192;
// packets of 1500 bytes at 6.9 and 5.6 Gb/s.
//
// This holds for copy mode. A driver in zero-copy mode receives all packets of the queue into these frames, and gets all of them (fix).
//
// So the level starts in the middle. It doubles when a refill finds the ring nearly empty, which is before packets are lost, and sinks
// slowly while it is not needed.
type fillLevel struct {
	now, min, max uint32
	lowest        uint32 // fewest frames found since the last decision to sink
	refilled      uint32 // frames since that decision
	held          uint32 // frames in the ring after the last look at it
	taken         uint32 // frames received since
	primed        bool   // the ring was filled once
}

const (
	// minFillLevel is 60 packets of 64 KiB: twice what a peer of this library sends with one system call.
	minFillLevel = 1024
	// firstFillLevel takes the first burst of a peer before anything is known about it: 64 packets of 64 KiB in 17 frames
	// each, an initial window.
	firstFillLevel = 2 * minFillLevel
	// fillLevelPeriod is how many times the level's frames pass before it may sink.
	fillLevelPeriod = 64
	// RefillBatch is the fewest missing frames worth a publish, in a ring that has many: so many may be with a caller that has given all back.
	RefillBatch = 64
)

func newFillLevel(slots uint32) fillLevel {
	first := min(firstFillLevel, slots)
	return fillLevel{now: first, min: min(minFillLevel, slots), max: slots, lowest: first}
}

// fix makes the level all there is for good.
func (l *fillLevel) fix() { l.now, l.min, l.held, l.primed = l.max, l.max, 0, true }

// wait reports whether looking at the ring is not worth it yet: it was well filled, and few packets were received since.
func (l *fillLevel) wait() bool {
	return l.primed && l.now >= 4*RefillBatch && l.held >= l.now/2 && l.taken < RefillBatch
}

// looked notes how many frames the ring holds now.
func (l *fillLevel) looked(held uint32) { l.held, l.taken = held, 0 }

// missing says how many frames should be added to the ring, which holds left.
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

// decide lets the level rise or sink.
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
