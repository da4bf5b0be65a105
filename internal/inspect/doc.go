// Package inspect is the server for package ndinspect: a socket for each adapter that only its owner may use. It does not know
// adapters; they compute the answers.
//
// The protocol is one line of JSON in each direction, repeated: a Request and its Reply. Both have the version of the protocol;
// fields may be added within a version. A Reply with Streams is followed by packets, in blocks: four bytes with the length of the
// block, most significant first, and the block. The blocks form a stream of records (record.go). A length of zero ends it, and an
// End in JSON follows. The client ends the capture by shutting down its direction of the connection, or by closing it.
package inspect
