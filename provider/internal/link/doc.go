// Package link is the network as an engine sees it: packets, the frames that they lie in, and the interface that gives and takes them in
// batches. It knows how a packet lies in frames and nothing of connections.
package link
