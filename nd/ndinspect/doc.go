// Package ndinspect opens an adapter to the command ndstat, and reads what other processes opened: through a Unix socket that only
// its owner may use.
//
// The protocol is one line of JSON in each direction, as often as the client likes: a Request, and a Reply to it. Both have the
// version of the protocol; fields may be added within one. A Reply that Streams is followed by a capture as pcapng, in blocks: four bytes
// with the length of the block, most significant first, and the block. Length zero is the end, and a Summary in JSON follows. The
// client ends the capture by closing its direction of the connection, or all of it.
package ndinspect
