// Package space keeps what is known of the two directions of a connection: which packet numbers came (PROTOCOL §3.5), which pieces of
// messages were sent and which of these arrived (§3.1, §9.3), and which packets wait behind a gap, with the memory that they take (§9.1). Its objects
// are values without locks; whoever owns the connection calls them.
package space
