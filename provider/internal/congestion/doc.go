// Package congestion decides how much a connection may have in flight, when, and in packets of what size: functions of numbers and
// times. It knows no packet, no connection and no clock.
//
//	State      the windows of a connection, and what they follow from
//	Control    what decides over the window for the network: Delay, or Fixed
//	Endpoint   the window for a receiver that cannot keep up
//	PathMTU    the search for the largest packet that a path carries
//
// A State belongs to the engine of its connection, like all else of it.
package congestion
