// Package credit decides when the two ends of a connection send messages about receives (PROTOCOL §9.4). A sender whose SEND waits
// for a receive asks for one. A receiver repeats its promise of a receive until the SEND arrives. The package handles times and
// round trips, but neither packets nor connections.
package credit
