// Package credit decides when the two ends of a connection speak of receives: the sender of a SEND that waits for one asks, and the receiver
// repeats that there is one (PROTOCOL §9.4). It knows times and round trips, and neither packets nor connections.
package credit
