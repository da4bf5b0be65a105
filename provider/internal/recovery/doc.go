// Package recovery keeps what is known of the packets that a connection sent, by packet number, and decides what was lost, when to ask, when to
// acknowledge and what to tell of congestion marks (PROTOCOL §3.1, §9.2, §9.3, §9.4). Its objects are values without locks and without a
// clock; whoever owns the connection calls them.
package recovery
