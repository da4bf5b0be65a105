// Package link is an engine's view of the network: packets, their frames, and the interface that receives and sends them in
// batches. It knows how a packet lies in frames, but nothing about connections.
package link
