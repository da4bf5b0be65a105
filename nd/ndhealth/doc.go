// Package ndhealth examines whether, and how well, the interfaces of this machine can carry ND traffic, and suggests remedies. It
// only reads: it attaches, changes, loads and binds nothing, so that it never disturbs an adapter. Exception: if Config names a
// peer, an adapter is opened to ask it.
//
// Facts are collected first (facts.go and files that it calls). Functions of these facts then judge them (judge*.go, and
// firewall.go with nft.go).
//
// All results are for the network namespace of the calling thread. Any goroutine may call.
package ndhealth
