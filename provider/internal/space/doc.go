// Package space keeps the state of the two directions of a connection. It knows which packet numbers were received (PROTOCOL §3.5)
// and which segments of messages were sent and acknowledged (§3.1, §9.3). It stores packets that wait behind a gap (§9.1). Its
// objects are values without locks; the owner of the connection calls them.
package space
