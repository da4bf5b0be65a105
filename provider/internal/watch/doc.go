// Package watch says who waits for the packets of an engine. An engine has one watcher at a time: whoever waits for packets when there is nothing
// to do, and runs turns when they come. An application that sleeps in a call watches itself, so that its packet wakes it and nobody else; the
// progress goroutine watches while nobody sleeps.
package watch
