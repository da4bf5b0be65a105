// Package repeat calls a function periodically.
package repeat

import "time"

// Every calls f each d in a separate goroutine, until stop is called. stop waits for f.
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
