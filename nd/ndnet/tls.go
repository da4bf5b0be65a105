package ndnet

import (
	"context"
	"crypto/tls"
	"net"
	"strings"

	"github.com/ndxdp/ndxdp/nd"
)

// SecureConn is an encrypted connection over ND. Programs that look for a method ConnectionState find the identity of the peer; net/http
// does so for Request.TLS. A *Conn is not encrypted, and lacks the method. An encrypted connection over TCP is a *tls.Conn.
//
// The package encrypts packets, not the stream: there are no TLS records, and CloseWrite sends no alert of TLS.
type SecureConn struct {
	*Conn
	state tls.ConnectionState
}

// ConnectionState returns the TLS version and cipher suite, and the certificates of the peer. The handshake is complete before Dial and
// Accept return.
func (c *SecureConn) ConnectionState() tls.ConnectionState { return c.state }

// secured returns c as the application sees it: as a SecureConn if it is encrypted.
func secured(c *Conn) net.Conn {
	if state, ok := c.connector.TLS(); ok {
		return &SecureConn{c, state}
	}
	return c
}

// admission is how a listener treats TLS. The zero value accepts plain connections only.
type admission struct {
	tls   *tls.Config
	plain bool // connections that are not encrypted are accepted, too
}

// apply configures a listener of package nd.
func (a admission) apply(l *nd.Listener) error {
	if a.tls == nil {
		return nil
	}
	policy := nd.TLSRequired
	if a.plain {
		policy = nd.TLSAllowed
	}
	return l.UseTLS(a.tls, policy)
}

// UseTLS encrypts later connections: client is the configuration of Dial and DialContext, server of Listen. Connections are then
// *SecureConn. nil in either place leaves connections of this kind plain. Dial verifies the name in its address, unless ServerName is set.
// UseTLS clones the configurations: their lists and pools must not change. The calls that use them return what is wrong in them.
func (n *Network) UseTLS(client, server *tls.Config) {
	if client != nil {
		client = client.Clone()
	}
	if server != nil {
		server = server.Clone()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.client, n.server = client, admission{tls: server}
}

// configured returns what UseTLS has set.
func (n *Network) configured() (client *tls.Config, server admission) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.client, n.server
}

// named returns a configuration that verifies the host in a dialed address, unless it names a server itself.
func named(cfg *tls.Config, address string) *tls.Config {
	if cfg == nil || cfg.ServerName != "" {
		return cfg
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return cfg // an empty host is this machine, and its address is verified
	}
	cfg = cfg.Clone()
	cfg.ServerName, _, _ = strings.Cut(host, "%")
	return cfg
}

// dialTCP connects over TCP: with crypto/tls if the dialer has a configuration, never without it then.
func (d *Dialer) dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.TCP.DialContext(ctx, tcpName(network), address)
	if err != nil || d.TLS == nil {
		return c, err
	}
	s := tls.Client(c, named(d.TLS, address))
	if err := s.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, &net.OpError{Op: "dial", Net: tcpName(network), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: meaning(err)}
	}
	return s, nil
}
