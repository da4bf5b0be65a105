package tlshake

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"

	"github.com/ndxdp/ndxdp/internal/aead"
)

// Protocol is the name of the application protocol (ALPN) of configurations that name none.
const Protocol = "ndxdp"

// Errors of ClientConfig and ServerConfig.
var (
	errNoConfig   = errors.New("there is no TLS configuration: give a *tls.Config")
	errOldVersion = errors.New("the TLS configuration allows no TLS 1.3, and packets are encrypted with TLS 1.3 only: set MaxVersion to zero")
	errNoCert     = errors.New("the TLS configuration of a listener has no certificate: set Certificates, GetCertificate or GetConfigForClient")
)

// ClientConfig returns the configuration for a connector: a copy of cfg with TLS 1.3, and without session tickets. If cfg names no
// protocol, the copy names Protocol. If cfg names no server, each handshake verifies the IP address of its peer.
//
// ClientConfig fails if cfg is nil or allows no TLS 1.3. It also fails if the process may not encrypt packets (aead.Usable). The caller
// may use and change cfg afterwards.
func ClientConfig(cfg *tls.Config) (*tls.Config, error) { return harden(copyOf(cfg)) }

// ServerConfig returns the configuration for a listener, as ClientConfig does for a connector. A configuration that GetConfigForClient
// returns is changed in the same way. It fails if cfg has no source of certificates.
func ServerConfig(cfg *tls.Config) (*tls.Config, error) {
	c, err := harden(copyOf(cfg))
	if err != nil {
		return nil, err
	}
	if len(c.Certificates) == 0 && c.GetCertificate == nil && c.GetConfigForClient == nil {
		return nil, errNoCert
	}
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return nil, err
			}
			return harden(chosen)
		}
	}
	return c, nil
}

// copyOf returns a copy that shares with cfg nothing that a caller changes: Clone of crypto/tls shares lists and pools. nil is its own copy.
func copyOf(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	c := cfg.Clone()
	c.Certificates, c.NextProtos = slices.Clone(c.Certificates), slices.Clone(c.NextProtos)
	c.CipherSuites, c.CurvePreferences = slices.Clone(c.CipherSuites), slices.Clone(c.CurvePreferences)
	for _, pool := range []**x509.CertPool{&c.RootCAs, &c.ClientCAs} {
		if *pool != nil {
			*pool = (*pool).Clone()
		}
	}
	return c
}

// harden copies a configuration, and changes what both ends have in common.
func harden(cfg *tls.Config) (*tls.Config, error) {
	switch {
	case cfg == nil:
		return nil, errNoConfig
	case cfg.MaxVersion != 0 && cfg.MaxVersion < tls.VersionTLS13:
		return nil, errOldVersion
	}
	if err := aead.Usable(); err != nil {
		return nil, err
	}
	c := cfg.Clone()
	c.MinVersion = tls.VersionTLS13
	if len(c.NextProtos) == 0 {
		c.NextProtos = []string{Protocol}
	}
	c.SessionTicketsDisabled, c.ClientSessionCache = true, nil // a ticket would need the TLS state for as long as the connection lives
	return c, nil
}

// withAddresses returns a configuration whose functions see the addresses of the connection in ClientHelloInfo.Conn.
func withAddresses(cfg *tls.Config, local, remote net.Addr) *tls.Config {
	if cfg.GetConfigForClient == nil && cfg.GetCertificate == nil {
		return cfg
	}
	c := cfg.Clone()
	conn := addresses{local: local, remote: remote}
	if choose := cfg.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			hello.Conn = conn
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return nil, err
			}
			return withAddresses(chosen, local, remote), nil
		}
	}
	if certificate := cfg.GetCertificate; certificate != nil {
		c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			hello.Conn = conn
			return certificate(hello)
		}
	}
	return c
}

// addresses is a net.Conn of which only the addresses can be used. Every other method panics, because there is no stream.
type addresses struct {
	net.Conn
	local, remote net.Addr
}

func (a addresses) LocalAddr() net.Addr  { return a.local }
func (a addresses) RemoteAddr() net.Addr { return a.remote }
