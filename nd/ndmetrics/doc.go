// Package ndmetrics exports an adapter's counters to Prometheus. Names and units follow Prometheus' conventions: base units, and
// counters that end in _total. Nothing is stored or computed between scrapes.
package ndmetrics
