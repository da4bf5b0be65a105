// Package shake carries the bytes of a TLS handshake over packets that may be lost (PROTOCOL §10.2).
//
// A side has a Flight for each encryption level that it sends, and an Assembly for each level that it receives. A Flight cuts its
// bytes into fragments and sends again what the peer does not have. An Assembly accepts fragments in any order and returns the bytes
// in order. Peers tell each other how many bytes they have without a gap, so no packet of the handshake is acknowledged by itself.
//
// All fragments come from a peer that is not authenticated yet. Memory, number of gaps and number of bytes are bounded, and a
// fragment that contradicts an earlier one is dropped. Both types are values without locks, and belong to the owner of the engine.
package shake
