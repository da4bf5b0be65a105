// Package ndinspect opens an adapter to the command ndstat, and reads what other processes opened: through a Unix socket that only
// its owner may use.
//
// The protocol is one line of JSON in each direction, as often as the client likes: a Request, and a Reply to it. Both have the
// version of the protocol; fields may be added within one.
package ndinspect
