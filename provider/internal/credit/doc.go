// Package credit decides when the two ends of a connection send messages about receives. The sender of a SEND that waits for a receive
// asks; the receiver repeats that there is one (PROTOCOL §9.4). It knows times and round trips, but neither packets nor connections.
package credit
