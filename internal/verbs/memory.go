package verbs

import (
	"errors"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// giveBack returns memory to the device by calling release: at once, or when the adapter closes if packets that refer to the memory do not
// leave. Its owner has ended the requests that use the memory.
func (a *Adapter) giveBack(release func() error) error {
	if a.awaitTransmitDone() {
		return release()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = append(a.kept, release)
	return nil
}

// transmitTries bounds the wait, in milliseconds, until packets that refer to allocated memory are sent. A device that has not sent them by
// then is down; the memory is then not used again before the adapter closes.
const transmitTries = 100

// awaitTransmitDone waits until no packet in the transmit ring refers to unused memory: a retransmitted copy may still wait there.
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

// releaseKept releases the memory that giveBack kept. Nothing is sent any more.
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
