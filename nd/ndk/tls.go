package ndk

import (
	"crypto/tls"
	"fmt"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// TLSPolicy says which connections a listener with a TLS configuration accepts.
type TLSPolicy uint8

// TLSRequired refuses connections that are not encrypted. TLSAllowed accepts them too; Connector.TLS tells them apart. A connector never
// falls back to a connection that is not encrypted.
const (
	TLSRequired TLSPolicy = 0
	TLSAllowed  TLSPolicy = 1
)

// UseTLS encrypts the connections that the connector makes, with a copy of cfg; nil takes it back. The connector must not be in use.
// nd.Connector.UseTLS says what is changed in the copy. If ServerName is empty, the certificate must have the IP address of dest. Functions
// in cfg run on goroutines of their own, never on one that moves packets or calls callbacks.
//
// If this side does not accept the peer, Connect finishes with StatusConnectionAborted. If the peer does not accept this side, or if only
// one side uses TLS, Connect finishes with StatusConnectionRefused. TLSError has the reason.
//
// Errors wrap StatusInvalidParameter (with what is wrong in cfg), StatusConnectionActive, StatusConnectionInvalid (used up) or
// StatusDeviceRemoved.
func (c *Connector) UseTLS(cfg *tls.Config) error {
	o, err := c.k.UseTLS(cfg)
	return unfit("connector", o, err)
}

// UseTLS makes the listener accept encrypted connections, with a copy of cfg, and with TLSAllowed also others; nil takes it back. It must
// be called before Listen. The connect event comes only after the peer was verified as cfg.ClientAuth asks for. nd.Listener.UseTLS says
// more.
//
// Errors wrap StatusInvalidParameter (with what is wrong in cfg, or an unknown policy), StatusInvalidDeviceState (listening or closed) or
// StatusDeviceRemoved.
func (l *Listener) UseTLS(cfg *tls.Config, policy TLSPolicy) error {
	if policy > TLSAllowed {
		return unfit("listener", verbs.OutcomeWrongArgument, fmt.Errorf("the policy is %d: choose TLSRequired or TLSAllowed", policy))
	}
	o, err := l.l.UseTLS(cfg, policy == TLSAllowed)
	return unfit("listener", o, err)
}

// unfit returns the error of UseTLS, or nil.
func unfit(what string, o provider.Outcome, err error) error {
	switch {
	case o == provider.OutcomeSuccess:
		return nil
	case err != nil:
		return fmt.Errorf("ndk: use TLS for a %s: %w: %w", what, statusTable[o], err)
	}
	return fmt.Errorf("ndk: use TLS for a %s: %w", what, statusTable[o])
}

// TLS returns the state of an encrypted connection: the version and cipher suite, and the certificates of the peer. It is known from
// the connect event on the passive side. On the active side it is known as soon as this side has verified the peer, until
// the peer refuses the connection. Otherwise ok is false. The state remains after the end of the
// connection, until the next Connect.
func (c *Connector) TLS() (state tls.ConnectionState, ok bool) { return c.k.TLS() }

// TLSError returns why TLS ended the newest Connect, or nil if TLS did not end it. If the peer refused, errors.As finds a tls.AlertError.
// If this side refused the peer's certificate, errors.As finds a *tls.CertificateVerificationError.
func (c *Connector) TLSError() (why error) {
	c.k.Own(func(*provider.Engine) {
		failure := c.k.TLSFailure()
		switch {
		case failure == nil:
		case failure.Err != nil:
			why = failure.Err
		default:
			why = tls.AlertError(failure.Alert)
		}
	})
	return why
}
