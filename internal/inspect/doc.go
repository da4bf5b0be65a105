// Package inspect is the serving side of what package ndinspect asks: a socket of each adapter that only its owner may use. It knows nothing of
// adapters: what to answer is the business of who serves.
//
// The protocol is one line of JSON in each direction, as often as the client likes: a Request, and a Reply to it. Both have the version of the
// protocol; fields may be added within one. A Reply that Streams is followed by packets, in blocks: four bytes with the length of the block, most
// significant first, and the block. The blocks together are records (record.go). Length zero is the end, and an End in JSON follows. The client
// ends the capture by closing its direction of the connection, or all of it.
package inspect
