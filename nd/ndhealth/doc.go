// Package ndhealth tells whether, and how well, the interfaces of this machine can carry ND traffic, and what to do about what is in the
// way. It looks only: nothing is attached, changed, loaded or bound, so that it is in the way of no adapter that is opened meanwhile. When Config names
// a peer, that is asked by an adapter which is opened for it.
//
// Facts are gathered first (facts.go and the files it calls) and judged then (judge*.go, and firewall.go with nft.go), by functions of the facts alone.
//
// Everything concerns the network namespace of the calling thread. Calls may be made from any goroutine.
package ndhealth
