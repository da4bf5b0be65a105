// Package packet writes packets into frames and walks through received packets (PROTOCOL §3, §4). It knows the format of packets,
// but not their senders, receivers or the meaning of operations. Its objects are values without locks; the owner of the engine
// calls them.
package packet
