// Package aead seals and opens packets with the ciphers of TLS 1.3, and derives their keys (PROTOCOL §10).
//
// A Secret belongs to one direction and one key generation of a connection. The TLS handshake makes the secrets of generations 0
// and 1, and each later secret follows from the secret before it. A Key is made from a Secret. It seals or opens packets under the
// nonce of RFC 9001 §5.3: the initialization vector XOR the full packet number. A number must never be sealed twice under one Key,
// because two packets with one nonce reveal their contents and the means to forge further packets.
//
//	secret of generation 1 -- "nd ku" --> secret of generation 2 -- "nd ku" --> …
//	     |  "nd key", "nd iv"                  |
//	     v                                     v
//	    Key                                   Key
//
// The labels differ from QUIC's labels, so that a packet of one protocol opens in none but its own.
//
// Seal and Open allocate nothing. A Key is used by one goroutine at a time, because it holds the nonce of the packet at hand.
// The package keeps no global state and reads no clock and no randomness.
package aead
