// Package space keeps the state of the two directions of a connection: which packet numbers were received (PROTOCOL §3.5), which segments
// of messages were sent and acknowledged (§3.1, §9.3), and which packets wait behind a gap, with their memory (§9.1). Its objects are
// values without locks; the owner of the connection calls them.
package space
