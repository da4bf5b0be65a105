// Package turn attributes the time between two polls of an engine: to the poll that sent packets, to an owner that did not look
// for packets, or to the network. It is a function of times. PROTOCOL §3.2 says what peers are told of it.
package turn
