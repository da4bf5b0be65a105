// Package trace collects what an engine reports about itself: counters, what blocks connections and for how long, request latency,
// and the flight recorder. It does not change what the engine does. Times are arguments.
package trace
