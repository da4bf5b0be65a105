package provider

// The congestion window, in packets over both sequence spaces.
const (
	initialWindow = 64
	minWindow     = 2
	maxWindow     = Window
)

// congestion decides how many packets may be in flight. This controller reacts to loss alone: slow start, then one packet
// per window, half on loss, one packet after a time-out.
type congestion struct {
	window    int
	threshold int
	credit    int // packets acknowledged since the window last grew
	before    int // window before the last time-out, to undo it
}

func (cc *congestion) reset() {
	cc.window, cc.threshold, cc.credit, cc.before = initialWindow, maxWindow, 0, 0
}

// acked takes in n newly acknowledged packets.
func (cc *congestion) acked(n int) {
	if cc.window >= maxWindow {
		return
	}
	if cc.window < cc.threshold {
		cc.window = min(cc.window+n, maxWindow)
		return
	}
	cc.credit += n
	if cc.credit >= cc.window {
		cc.credit -= cc.window
		cc.window++
	}
}

// lost reacts to loss, at most once per round trip.
func (cc *congestion) lost() {
	cc.threshold = max(cc.window/2, minWindow)
	cc.window = cc.threshold
	cc.credit, cc.before = 0, 0 // a time-out before a loss was one
}

// timedOut reacts to a retransmission time-out.
func (cc *congestion) timedOut() {
	if cc.window > 1 {
		cc.before = cc.window
		cc.threshold = max(cc.window/2, minWindow)
	}
	cc.window = 1
}

// undo takes back a time-out that was not one (RFC 3522). It reports whether there was one to take back.
func (cc *congestion) undo() bool {
	if cc.before == 0 {
		return false
	}
	if cc.before > cc.window {
		cc.window, cc.threshold = cc.before, maxWindow
	}
	cc.before = 0
	return true
}
