package ndnet

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// ListenConfig listens on adapters that it opens or shares with other users of the process. The zero value is valid.
type ListenConfig struct {
	Adapters

	// TCP also accepts connections over TCP, on the same addresses and port, so that clients can change from TCP to ND at any time.
	TCP bool
	// TLS, if set, encrypts connections: Accept returns *SecureConn over ND and *tls.Conn over TCP, after the handshake and the
	// verification of the peer that ClientAuth asks for. Clients that fail are not reported; ndstat counts them. Over TCP, a handshake
	// may take Adapters.Config.EstablishTimeout. A program that calls tls.NewListener or ServeTLS itself leaves TLS nil.
	TLS *tls.Config
	// AllowPlain also accepts connections that are not encrypted, while clients change over to TLS: over ND *Conn, over TCP
	// *net.TCPConn. Over TCP, the first byte of the client tells, so AllowPlain does not fit protocols in which the server speaks first.
	AllowPlain bool
	// Resolver looks up names; nil is net.DefaultResolver.
	Resolver *net.Resolver
	// KeepAlive applies to accepted connections, as in Dialer. Over TCP it is the field of net.ListenConfig.
	KeepAlive time.Duration
	// KeepAliveConfig, if enabled, is used instead; see Conn.SetKeepAliveConfig. Over TCP it is the field of net.ListenConfig.
	KeepAliveConfig net.KeepAliveConfig
}

// Listen listens on an address with a zero ListenConfig.
func Listen(network, address string) (net.Listener, error) {
	return (&ListenConfig{}).Listen(context.Background(), network, address)
}

// Listen accepts connections on "host:port". Port 0 selects a free port. The network is one that Dialer.Dial takes.
//
// Without a host, or with an unspecified one, it listens on every address of the machine that an adapter can be opened on, loopback
// included. It succeeds if at least one address works. It follows addresses and interfaces as they appear and disappear: only Close ends
// it. The first eight addresses get the configured adapters. With DatapathAuto or DatapathUDP, each further address gets an adapter with
// DatapathUDP when its first packet arrives. Until then it takes three descriptors, and ndstat does not show it.
func (l *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if ctx == nil {
		return nil, &net.OpError{Op: "listen", Net: "nd", Err: errNil}
	}
	if err := checkName(network); err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	one, err := l.listen(ctx, network, address)
	if err == nil {
		return one, nil
	}
	var done *net.OpError
	if errors.As(err, &done) {
		return nil, err
	}
	return nil, &net.OpError{Op: "listen", Net: "nd", Err: meaning(err)}
}

func (l *ListenConfig) listen(ctx context.Context, network, address string) (net.Listener, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if isUnspecified(host) {
		host = ""
	}
	at, err := resolve(ctx, l.Resolver, network, net.JoinHostPort(host, service))
	if err != nil {
		return nil, err
	}
	if host != "" {
		return l.listenAt(ctx, network, at[0])
	}
	return l.listenEverywhere(ctx, network, at[0].Port())
}

// listenAt listens on one address.
func (l *ListenConfig) listenAt(ctx context.Context, network string, at netip.AddrPort) (net.Listener, error) {
	tcp, err := l.listenTCP(ctx, network, at.Addr().String(), at.Port())
	if err != nil {
		return nil, err
	}
	if tcp == nil {
		return l.listenOne(&l.Adapters, at)
	}
	one, err := l.listenOne(&l.Adapters, netip.AddrPortFrom(at.Addr(), tcp.Addr().(*net.TCPAddr).AddrPort().Port()))
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return newMerged(tcp.Addr(), tcp, one), nil
}

// portTries is how many free ports a listener on every address tries. A port that is free on the first address may be in use on another one.
const portTries = 8

// listenEverywhere listens on every address of the machine.
func (l *ListenConfig) listenEverywhere(ctx context.Context, network string, port uint16) (net.Listener, error) {
	var tried []net.Listener // they keep their ports meanwhile, so that each try gets another one
	defer func() {
		for _, e := range tried {
			_ = e.Close()
		}
	}()
	for {
		tcp, err := l.listenTCP(ctx, network, "", port)
		if err != nil {
			return nil, err
		}
		e, missing := l.newEverywhere(family(network), port, tcp)
		switch {
		case e == nil && tcp != nil:
			return nil, errors.Join(missing, tcp.Close())
		case e == nil:
			return nil, missing
		case port != 0 || !errors.Is(missing, nd.ErrSharingViolation) || len(tried) == portTries-1:
			return e, nil
		}
		tried = append(tried, e)
	}
}

// listenTCP listens over TCP. It returns nil if the configuration does not ask for TCP.
func (l *ListenConfig) listenTCP(ctx context.Context, network, host string, port uint16) (net.Listener, error) {
	if !l.TCP {
		return nil, nil
	}
	tcp, err := (&net.ListenConfig{KeepAlive: l.KeepAlive, KeepAliveConfig: l.KeepAliveConfig}).Listen(ctx, tcpName(network), net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil || l.TLS == nil {
		return tcp, err
	}
	patience := l.Config.EstablishTimeout
	if patience <= 0 {
		patience = defaultEstablish
	}
	return newTLSOverTCP(tcp, l.admission(), patience), nil
}

func (l *ListenConfig) admission() admission { return admission{l.TLS, l.AllowPlain} }

func (l *ListenConfig) listenOne(on *Adapters, at netip.AddrPort) (*Listener, error) {
	n, err := on.network(at.Addr())
	if err != nil {
		return nil, err
	}
	defer n.drop()
	one, err := n.listen(netip.AddrPortFrom(at.Addr().WithZone(""), at.Port()), l.admission())
	if err != nil {
		return nil, err
	}
	one.keep = keepAliveOf(l.KeepAlive, l.KeepAliveConfig) // before a caller can call Accept
	return one, nil
}

// merged accepts from several listeners.
type merged struct {
	addr     net.Addr // what Addr returns
	accepted chan accepted
	done     chan struct{}
	deadline acceptDeadline
	once     sync.Once
	err      error // why it ended; set before done is closed

	mu  sync.Mutex
	all map[net.Listener]struct{} // nil after the end
}

// accepted is a result of one listener's Accept: a connection, or a temporary error.
type accepted struct {
	conn net.Conn
	err  error
}

func newMerged(addr net.Addr, all ...net.Listener) *merged {
	m := &merged{addr: addr, accepted: make(chan accepted), done: make(chan struct{}), all: map[net.Listener]struct{}{}}
	for _, l := range all {
		m.add(l, nil)
	}
	return m
}

// add also accepts from l. If l fails and ended is nil, all listeners end. Otherwise ended is called, and the others go on.
func (m *merged) add(l net.Listener, ended func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		_ = l.Close()
		return
	}
	m.all[l] = struct{}{}
	go func() {
		why := m.run(l)
		if ended == nil {
			_ = m.end(why)
			return
		}
		m.mu.Lock()
		delete(m.all, l)
		m.mu.Unlock()
		ended()
	}()
}

// run accepts from one listener until it fails. The caller of Accept gets temporary errors, such as the lack of a descriptor.
func (m *merged) run(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil && !isTemporary(err) {
			return err
		}
		select {
		case m.accepted <- accepted{c, err}:
		case <-m.done:
			if err == nil {
				_ = c.Close()
			}
		}
	}
}

// isTemporary reports whether Accept may succeed later, for example because a descriptor was lacking.
func isTemporary(err error) bool {
	var passing interface{ Temporary() bool }
	return errors.As(err, &passing) && passing.Temporary()
}

func (m *merged) end(why error) (err error) {
	err = net.ErrClosed
	m.once.Do(func() {
		m.err = why
		close(m.done)
		m.mu.Lock()
		all := m.all
		m.all = nil
		m.mu.Unlock()
		err = nil
		for l := range all {
			err = errors.Join(err, l.Close())
		}
	})
	return err
}

// Accept waits for the next connection of any of the listeners. It also returns a listener's temporary error, such as the lack of a
// descriptor; the caller may then go on, as with package net.
func (m *merged) Accept() (net.Conn, error) {
	late := &net.OpError{Op: "accept", Net: "nd", Addr: m.Addr(), Err: os.ErrDeadlineExceeded}
	if m.deadline.over() {
		return nil, late
	}
	select {
	case a := <-m.accepted:
		return a.conn, a.err
	case <-m.done:
		return nil, m.err
	case <-m.deadline.done():
		return nil, late
	}
}

// SetDeadline sets the time after which Accept fails with os.ErrDeadlineExceeded; zero is never.
func (m *merged) SetDeadline(t time.Time) error {
	m.deadline.set(t)
	return nil
}

// Close ends all listeners.
func (m *merged) Close() error {
	closed := &net.OpError{Op: "accept", Net: "nd", Addr: m.Addr(), Err: net.ErrClosed}
	if err := m.end(closed); err != nil {
		return &net.OpError{Op: "close", Net: "nd", Addr: m.Addr(), Err: err}
	}
	return nil
}

// Addr returns the TCP address if it accepts TCP.
func (m *merged) Addr() net.Addr { return m.addr }
