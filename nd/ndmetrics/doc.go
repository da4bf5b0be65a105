// Package ndmetrics tells Prometheus what an adapter does. Names and units follow Prometheus' conventions: base units, counters
// that end in _total. Nothing is kept or computed between scrapes.
package ndmetrics
