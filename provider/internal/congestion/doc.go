// Package congestion decides how much a connection may have in flight, when, and in packets of what size. It is a function of
// numbers and times, and knows neither packets, connections nor clocks.
//
//	State      the windows of a connection, and the measurements they follow from
//	Control    sets the window for the network: Delay, or Fixed
//	Endpoint   the window for a receiver that cannot keep up
//	PathMTU    the search for the largest packet that a path carries
//
// A State belongs to the engine of its connection.
package congestion
