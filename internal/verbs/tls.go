package verbs

import (
	"crypto/tls"
	"errors"

	"github.com/ndxdp/ndxdp/internal/tlshake"
	"github.com/ndxdp/ndxdp/provider"
)

// ErrNeedsTLS is the cause of a refused Connect or Listen on an adapter with RequireTLS.
var ErrNeedsTLS = errors.New("the adapter was opened with RequireTLS, and connections would not all be encrypted: call UseTLS before, and let a listener require TLS")

// handshakes runs the TLS handshakes of all adapters of the process, because the number of processors bounds how many run.
var handshakes = tlshake.New(0)

// UseTLS encrypts the connections of later attempts, with a copy of cfg. nil takes it back. With OutcomeWrongArgument the error says what is
// wrong in cfg.
//
// Outcomes: OutcomeSuccess, OutcomeWrongArgument, OutcomeConnectionActive, OutcomeConnectionInvalid, OutcomeDeviceRemoved.
func (c *Connector) UseTLS(cfg *tls.Config) (provider.Outcome, error) {
	shaker := provider.Shaker(nil)
	if cfg != nil {
		own, err := tlshake.ClientConfig(cfg)
		if err != nil {
			return OutcomeWrongArgument, err
		}
		shaker = handshakes.Client(own)
	}
	return c.Call(func() provider.Outcome {
		o := c.Connector.UseTLS(shaker)
		if o == provider.OutcomeSuccess {
			c.encrypts = shaker != nil
		}
		return o
	}), nil
}

// TLS returns the state of an encrypted connection, from the end of its handshake on. ok is false if there is none.
func (c *Connector) TLS() (state tls.ConnectionState, ok bool) {
	c.Own(func(*provider.Engine) { state, ok = c.Connector.TLS().(tls.ConnectionState) })
	return state, ok
}

// UseTLS makes the listener accept encrypted connections, with a copy of cfg, and with allowPlain also connections that are not encrypted.
// nil takes it back. With OutcomeWrongArgument the error says what is wrong in cfg.
//
// Outcomes: OutcomeSuccess, OutcomeWrongArgument, OutcomeInvalidState (listening or closed), OutcomeDeviceRemoved.
func (l *Listener) UseTLS(cfg *tls.Config, allowPlain bool) (provider.Outcome, error) {
	shaker := provider.Shaker(nil)
	if cfg != nil {
		own, err := tlshake.ServerConfig(cfg)
		if err != nil {
			return OutcomeWrongArgument, err
		}
		shaker = handshakes.Server(own)
	}
	return l.adapter.Call(func(*provider.Engine) provider.Outcome {
		o := l.Listener.UseTLS(shaker, allowPlain)
		if o == provider.OutcomeSuccess {
			l.encrypts = shaker != nil && !allowPlain
		}
		return o
	}), nil
}

// NeedsTLS reports whether Listen is refused because connections may be plain and the adapter has RequireTLS.
func (l *Listener) NeedsTLS() (needs bool) {
	l.adapter.Do(func(*provider.Engine) { needs = l.needsTLS() })
	return needs
}

// needsTLS is NeedsTLS for the owner of the leading engine.
func (l *Listener) needsTLS() bool { return l.adapter.RequireTLS && !l.encrypts }
