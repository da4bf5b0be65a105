// Package packet writes packets into frames and walks through received packets (PROTOCOL §3, §4). It knows how a packet is built. It does
// not know who sends it, to whom, or what its operations do. Its objects are values without locks; the owner of the engine calls them.
package packet
