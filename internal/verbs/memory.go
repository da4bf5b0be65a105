package verbs

import (
	"errors"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// giveBack gives memory of the device back with release, at once or, when packets that refer to it do not leave, as the adapter
// closes. Its owner has ended the requests that use it.
func (a *Adapter) giveBack(release func() error) error {
	if a.awaitTransmitDone() {
		return release()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = append(a.kept, release)
	return nil
}

// transmitTries bounds the wait, in milliseconds, for packets that refer to allocated memory to be sent. A device that has not sent by then
// does not, because it is down; such memory is not used again before the adapter closes.
const transmitTries = 100

// awaitTransmitDone waits until no packet that waits to be sent refers to memory that nobody uses: a copy that was sent again may still
// wait.
func (a *Adapter) awaitTransmitDone() bool {
	for range transmitTries {
		done := true
		for i, shard := range a.Shards {
			shard.Do(func(*provider.Engine) {
				// A closed adapter sends nothing, and its device may be gone.
				if !a.Closed() && !a.ports[i].TransmitDone() {
					done = false
				}
			})
		}
		if done {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// releaseKept gives back what giveBack kept: nothing is sent any more.
func (a *Adapter) releaseKept() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, release := range a.kept {
		errs = append(errs, release())
	}
	a.kept = nil
	return errors.Join(errs...)
}
