package provider

import (
	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is what connectors and listeners have of TLS (PROTOCOL §10). The handshake itself is in shaking.go.

// The names of package shaker that upper layers use.
type (
	// Shaker makes the TLS handshakes of a connector or of a listener.
	Shaker = shaker.Shaker
	// Shaking is one side of a TLS handshake.
	Shaking = shaker.Handshake
	// ShakeStep is what a TLS handshake produced from some bytes of the peer.
	ShakeStep = shaker.Step
	// ShakeLevel is an encryption level of a TLS handshake.
	ShakeLevel = wire.ShakeLevel
)

// Levels of a TLS handshake.
const (
	ShakeInitial   = wire.ShakeInitial
	ShakeHandshake = wire.ShakeHandshake
)

// TLSFailure is why a TLS handshake failed. It is an error.
type TLSFailure struct {
	Err   error // of this side's own check; nil if the peer ended the handshake
	Alert uint8 // the alert (RFC 8446 §6) that was sent to the peer, or that the peer sent
}

// Error describes the failure. Upper layers, which know the names of alerts, describe it better.
func (f *TLSFailure) Error() string {
	if f.Err != nil {
		return f.Err.Error()
	}
	return "the peer ended the TLS handshake"
}

// Unwrap returns the error of this side's own check.
func (f *TLSFailure) Unwrap() error { return f.Err }

// UseTLS makes the next Connect encrypt its connection. Without a Shaker, it does not. It fails in every state but idle and bound.
func (k *Connector) UseTLS(s Shaker) Outcome {
	if o := k.CheckState(); o != OutcomeSuccess {
		return o
	}
	k.secured().shaker = s
	return OutcomeSuccess
}

// TLS returns the state of the TLS handshake: of a request when the listener gave it, and of a Connect from the moment it waits for the
// peer's application. It returns nil for a connection that is not encrypted, and before.
func (k *Connector) TLS() any {
	if k.tls == nil {
		return nil
	}
	return k.tls.state
}

// TLSFailure returns why the TLS handshake of the newest Connect failed, or nil.
func (k *Connector) TLSFailure() *TLSFailure {
	if k.tls == nil {
		return nil
	}
	return k.tls.failure
}

// secured returns what the connector has of TLS, to change it.
func (k *Connector) secured() *connectorTLS {
	if k.tls == nil {
		k.tls = new(connectorTLS)
	}
	return k.tls
}

// connectorTLS is what a connector has of TLS.
type connectorTLS struct {
	shaker  Shaker
	state   any
	failure *TLSFailure
}

// UseTLS makes a listener accept encrypted connections, and refuse others unless allowPlain is set. It fails after Listen. Without a
// Shaker the listener refuses encrypted connections.
func (l *Listener) UseTLS(s Shaker, allowPlain bool) Outcome {
	if l.active || l.closed {
		return OutcomeInvalidState
	}
	l.shaker, l.allowPlain = s, allowPlain
	return OutcomeSuccess
}
