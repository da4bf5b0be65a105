package bulk

// middle and long messages have so many bytes at the least.
const (
	middle = 8 << 10
	long   = 64 << 10
)

// classes of messages are those below middle, those below long, and the others. What a way costs for a message is another thing than what it costs for a byte, so that each class has its
// own verdict.
const classes = 3

// Verdicts are which way moves the messages of each class faster.
type Verdicts [classes]Verdict

// All is one verdict for messages of every class.
func All(v Verdict) Verdicts { return Verdicts{v, v, v} }

// First are the verdicts before any comparison.
func First(always bool) Verdicts {
	if always {
		return All(Always)
	}
	return All(Unknown)
}

// recent is how many messages or packets say of what class those are that a connection sends.
const recent = 64

// lengths knows of what class the messages are that a connection sends as bulk: that of the longest of late, since short ones between long ones, such as headers, go with these. Zero is for short ones.
type lengths struct {
	class  uint8 // of what was sent of late
	newest uint8 // of the part of it that is not complete
	n      uint8 // how much that is
}

// sees takes in the length of a message that leaves, or a part of it, and returns the class.
func (l *lengths) sees(message int) uint8 {
	class := uint8(0)
	switch {
	case message >= long:
		class = 2
	case message >= middle:
		class = 1
	}
	l.newest = max(l.newest, class)
	l.class = max(l.class, class)
	if l.n++; l.n == recent {
		*l = lengths{class: l.newest}
	}
	return l.class
}
