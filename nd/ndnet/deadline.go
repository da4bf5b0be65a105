package ndnet

import "time"

// deadline is one of a connection's two deadlines. The connection's lock guards it; callers hold the lock.
type deadline struct {
	timer *time.Timer // made once, because many programs set a deadline before each Read
	at    time.Time   // zero for no deadline
	past  bool
}

// set replaces the deadline and says whether it has passed. The zero time is no deadline. Otherwise of.expired is called when it passes; of
// must be the same each time.
func (d *deadline) set(t time.Time, of interface{ expired(*deadline) }) (past bool) {
	d.stop()
	d.past = false
	if t.IsZero() {
		return false
	}
	left := time.Until(t)
	if left <= 0 {
		d.past = true
		return true
	}
	d.at = t
	if d.timer == nil {
		d.timer = time.AfterFunc(left, func() { of.expired(d) })
	} else {
		d.timer.Reset(left)
	}
	return false
}

// expire reports whether the deadline has passed. The timer's call may have waited for the lock while the deadline was replaced, and the wall
// clock may have been set back.
func (d *deadline) expire() bool {
	if d.at.IsZero() {
		return false
	}
	if left := time.Until(d.at); left > 0 {
		d.timer.Reset(left)
		return false
	}
	d.at, d.past = time.Time{}, true
	return true
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at = time.Time{}
}
