// Package turn answers whose time it was: what passed between two turns of an engine belongs to the turn that sent packets, to
// whoever did not look for packets, or to the network. It is a function of times; PROTOCOL §3.2 says what peers are told of it.
package turn
