// Package turn attributes the time between two polls of an engine, which the code calls turns. It belongs to the poll that sent
// packets, to an interruption of the engine's owner, or to the network. It is a function of times. PROTOCOL §3.2 describes which of
// them the peer is told.
package turn
