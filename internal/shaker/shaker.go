// Package shaker is the contract between engines and TLS handshakes (PROTOCOL §10.2). An engine carries the bytes of a handshake in
// packets, and package tlshake computes them on goroutines beside the engines. Neither package knows its counterpart.
package shaker

import (
	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/wire"
)

// Shaker makes the handshakes of a connector or of a listener. It has the TLS configuration and knows its side. It is safe for
// concurrent use.
type Shaker interface {
	// Begin begins a handshake between two ND endpoints. params are the transport parameters to send, which the handshake keeps.
	//
	// Each result is delivered, one at a time, from a goroutine of the Shaker. deliver does not block, and owns the Step. It may be
	// called before Begin returns. A client's first Step comes without Give.
	Begin(local, remote wire.Endpoint, params []byte, deliver func(*Step)) Handshake
}

// Handshake is one side of a TLS handshake. Its methods are safe for concurrent use, and do not block.
type Handshake interface {
	// Give takes handshake bytes of the peer, in order within their level, and copies them. If it returns false, nothing was taken,
	// because too many handshakes wait. The caller gives the same bytes again later.
	Give(level wire.ShakeLevel, b []byte) bool
	// Close ends the handshake at any time. A Step that is ready may still be delivered, also shortly after Close; the caller ignores it. The caller closes each
	// handshake, also after its last Step. It may do so more than once.
	Close()
}

// Step is what a handshake produced from some bytes of the peer. The receiver owns it.
type Step struct {
	// Initial and Handshake are bytes to send to the peer, in this order, by their level. Bytes of level Handshake travel in packets
	// of generation 0.
	Initial, Handshake []byte
	// Out and In are the new secrets of both directions by their generation, 0 or 1. A secret without a suite is none.
	Out, In [2]aead.Secret
	// Params are the peer's transport parameters, nil if they did not come in this Step. They are not authenticated before Done.
	Params []byte
	// Done: the handshake is complete and the peer verified, as far as the configuration asks for that. State is valid. It is a
	// tls.ConnectionState, which engines pass on and do not look at.
	Done  bool
	State any
	// Err is why the handshake failed. It wraps a tls.AlertError, and for a certificate that was refused a
	// *tls.CertificateVerificationError. Alert is the alert for the peer (RFC 8446 §6).
	Err   error
	Alert uint8
}

// Erase clears the secrets.
func (s *Step) Erase() {
	for i := range s.Out {
		s.Out[i].Erase()
		s.In[i].Erase()
	}
}
