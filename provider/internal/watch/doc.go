// Package watch decides which goroutine waits for the packets of an engine. An engine has at most one watcher. The watcher sleeps
// when there is nothing to do, and polls the engine when packets arrive. An application that sleeps in a call watches by itself, so
// that its packet wakes only this goroutine. Otherwise the progress goroutine watches.
package watch
