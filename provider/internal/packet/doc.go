// Package packet writes packets into frames and goes through what is in those that arrived (PROTOCOL §3, §4). It knows how a packet is made, and
// nothing of who sends it, to whom, or what its operations do. Its objects are values without locks; whoever owns the engine calls them.
package packet
