// Package recovery records the packets that a connection sent, by packet number. It decides which packets were lost, when to probe,
// when to acknowledge and how to report congestion marks (PROTOCOL §3.1, §9.2, §9.3, §9.4). Its objects are values without locks
// and without a clock; the owner of the connection calls them.
package recovery
