// Package trace owns what the engine tells about itself: counters, who holds connections back and for how long, where the time of
// requests goes, and the flight recorder. Nothing in it changes what the engine does; times come in as arguments.
package trace
