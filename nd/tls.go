package nd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// TLSPolicy says which connections a listener with a TLS configuration accepts.
type TLSPolicy uint8

// TLSRequired refuses connections that are not encrypted. TLSAllowed accepts them too: use it only while the clients of a listener change
// over to TLS. Connector.TLS tells them apart. A connector never falls back to a connection that is not encrypted.
const (
	TLSRequired TLSPolicy = 0
	TLSAllowed  TLSPolicy = 1
)

// String returns required or allowed.
func (p TLSPolicy) String() string {
	switch p {
	case TLSRequired:
		return "required"
	case TLSAllowed:
		return "allowed"
	default:
		return fmt.Sprintf("TLSPolicy(%d)", uint8(p))
	}
}

// UseTLS encrypts the connections that the connector makes: TLS 1.3 proves identities, and each packet is encrypted and authenticated.
// nil takes it back. The connector must be idle or bound.
//
// UseTLS copies cfg, so the caller may change it afterwards. The copy has TLS 1.3 only, no session tickets, and the protocol name "ndxdp"
// if NextProtos is empty. If ServerName is empty, the certificate must have the IP address that Connect is called with. Functions in
// cfg run on goroutines of the package, never on one that moves packets.
//
// Connect then also fails with
//
//   - ErrConnectionAborted if this side does not accept the peer. errors.As finds a *tls.CertificateVerificationError if the reason is
//     the peer's certificate.
//   - ErrConnectionRefused if the peer does not accept this side. errors.As finds the peer's tls.AlertError.
//   - ErrConnectionRefused with CausePeerHasNoTLS or CausePeerWantsTLS if only one side uses TLS.
//
// Errors: ErrInvalidParameter (cfg allows no TLS 1.3, or packets cannot be encrypted in the FIPS 140-only mode of this process),
// ErrConnectionActive (in use), ErrConnectionInvalid (used up), ErrDeviceRemoved.
func (c *Connector) UseTLS(cfg *tls.Config) error {
	o, err := c.k.UseTLS(cfg)
	return c.adapter.fail("use TLS", noAddr, noAddr, o, err)
}

// UseTLS makes the listener accept encrypted connections, and with TLSAllowed also connections that are not encrypted. nil takes it
// back. It must be called before Listen.
//
// UseTLS copies cfg as Connector.UseTLS does. GetConnectionRequest sees a request only after the peer was verified as cfg.ClientAuth asks
// for. Until then the peer's private data do not travel. The application reads the peer's identity with Connector.TLS, and then calls
// Accept or Reject. GetConfigForClient and GetCertificate of cfg see the ND addresses of both ends in ClientHelloInfo.Conn. They are called
// for each connection, so they may return a new certificate while connections with an old one go on.
//
// Errors: ErrInvalidParameter (cfg has no source of certificates, allows no TLS 1.3, an unknown policy, or FIPS 140-only mode),
// ErrInvalidDeviceState (listening or closed), ErrDeviceRemoved.
func (l *Listener) UseTLS(cfg *tls.Config, policy TLSPolicy) error {
	if policy > TLSAllowed {
		return l.adapter.fail("use TLS", noAddr, noAddr, verbs.OutcomeWrongArgument, fmt.Errorf("the policy is %s: choose TLSRequired or TLSAllowed", policy))
	}
	o, err := l.l.UseTLS(cfg, policy == TLSAllowed)
	return l.adapter.fail("use TLS", noAddr, noAddr, o, err)
}

// TLS returns the state of an encrypted connection: the version and cipher suite, and the certificates of the peer. It is known from
// GetConnectionRequest on the passive side. On the active side it is known as soon as this side has verified the peer, until
// the peer refuses the connection. Otherwise ok is false. The state remains after the end of the
// connection, until the next Connect.
func (c *Connector) TLS() (state tls.ConnectionState, ok bool) { return c.k.TLS() }

// advised adds to an error of TLS what to do about it.
func advised(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: add the authority of the peer's certificate to RootCAs (ClientCAs of a listener), or give the peer a certificate of a known one", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: dial a name of the certificate, set ServerName to one, or issue a certificate with this name", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: renew the peer's certificate, or set the clock of this machine", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%w: issue a certificate with extended key usage serverAuth for a listener, clientAuth for a dialer", err)
	}
	return err
}

// alertAdvice says what to do about alerts of the peer (RFC 8446 §6.2).
var alertAdvice = map[tls.AlertError]string{
	40:  "the two configurations have no common cipher suite, curve or signature algorithm: compare them",
	42:  "the peer does not accept this side's certificate: its own error says why",
	43:  "the peer does not know the kind of this side's key: use ECDSA, Ed25519 or RSA",
	44:  "this side's certificate was revoked: renew it",
	45:  "this side's certificate is expired in the eyes of the peer: renew it, or set the clocks",
	46:  "the peer does not accept this side's certificate: its own error says why",
	48:  "the peer does not know the authority of this side's certificate: add it to the peer's ClientCAs (RootCAs of a dialer)",
	49:  "the peer's application does not admit this identity",
	70:  "the peer has no TLS 1.3: allow it there",
	112: "the peer has no certificate for this name: check ServerName",
	116: "the peer wants a certificate of this side: set Certificates",
	120: "the two configurations have no protocol in common: compare NextProtos, which is ndxdp if it is empty",
}

// refusedByTLS returns why TLS ended a Connect, or nil if it did not. The engine calls it.
func (c *Connector) refusedByTLS(o provider.Outcome) error {
	if why := Cause(c.k.Cause()); o == provider.OutcomeRefused && (why == CausePeerHasNoTLS || why == CausePeerWantsTLS) {
		return why
	}
	failure := c.k.TLSFailure()
	switch {
	case failure == nil:
		return nil
	case failure.Err != nil:
		return advised(failure.Err)
	}
	alert := tls.AlertError(failure.Alert)
	if advice, ok := alertAdvice[alert]; ok {
		return fmt.Errorf("the peer ended the TLS handshake (%w): %s", alert, advice)
	}
	return fmt.Errorf("the peer ended the TLS handshake (%w)", alert)
}
