// Package repeat does something again and again beside its caller.
package repeat

import "time"

// Every calls f each d, from a goroutine of its own, until stop was called, which waits for it.
func Every(d time.Duration, f func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
