package ndnet

import (
	"sync"
	"time"
)

// deadline is one of a connection's two deadlines. The connection's lock guards it, and its callers hold that.
type deadline struct {
	timer *time.Timer
	past  bool
}

// set replaces the deadline, the zero time being none, and says whether it is past. wake is called under lock when it passes later.
func (d *deadline) set(t time.Time, lock sync.Locker, wake func()) (past bool) {
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
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		lock.Lock()
		defer lock.Unlock()
		if d.timer == timer { // else it was replaced while it waited for the lock
			d.past = true
			wake()
		}
	})
	d.timer = timer
	return false
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
