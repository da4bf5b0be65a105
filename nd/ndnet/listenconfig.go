package ndnet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// ListenConfig listens on adapters that it opens, or shares with others of the process. The zero value is useful.
type ListenConfig struct {
	Adapters

	// TCP also accepts connections over TCP, on the same addresses and port, so that clients change from one to the other when they like.
	TCP bool
	// Resolver looks up names; nil is net.DefaultResolver.
	Resolver *net.Resolver
	// KeepAliveConfig is that of the connections that are accepted; see Conn.SetKeepAliveConfig. Over TCP it is that of net.ListenConfig.
	KeepAliveConfig net.KeepAliveConfig
}

// Listen listens on an address with a zero ListenConfig.
func Listen(network, address string) (net.Listener, error) {
	return (&ListenConfig{}).Listen(context.Background(), network, address)
}

// Listen accepts connections on "host:port". Without a host, or with an unspecified one, it listens on every address of the machine that an adapter
// can be opened on, loopback included, and succeeds when one of them can be. Port 0 is a free one.
func (l *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if ctx == nil {
		return nil, &net.OpError{Op: "listen", Net: "nd", Err: errNil}
	}
	all, err := l.listen(ctx, network, address)
	if err != nil {
		var done *net.OpError
		if errors.As(err, &done) {
			return nil, err
		}
		return nil, &net.OpError{Op: "listen", Net: "nd", Err: meaning(err)}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return merge(all), nil
}

func (l *ListenConfig) listen(ctx context.Context, network, address string) (all []net.Listener, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	any := host == ""
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		any = true
	}
	if any {
		host = ""
	}
	at, err := resolve(ctx, l.Resolver, network, net.JoinHostPort(host, service))
	if err != nil {
		return nil, err
	}
	port := at[0].Port()
	if l.TCP {
		where := host
		if !any {
			where = at[0].Addr().String()
		}
		t, err := (&net.ListenConfig{KeepAliveConfig: l.KeepAliveConfig}).Listen(ctx, tcpName(network), net.JoinHostPort(where, strconv.Itoa(int(port))))
		if err != nil {
			return nil, err
		}
		all = append(all, t)
		port = t.Addr().(*net.TCPAddr).AddrPort().Port()
	}
	addrs := []netip.Addr{at[0].Addr()}
	if any {
		if addrs, err = everyAddress(family(network)); err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
	}
	tcp, first := len(all), error(nil)
	for _, a := range addrs {
		one, err := l.listenOne(netip.AddrPortFrom(a, port))
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		port = one.addr.AddrPort().Port()
		all = append(all, one)
	}
	if len(all) == tcp {
		return nil, errors.Join(first, closeAll(all))
	}
	return all, nil
}

// everyAddress are the addresses that adapters can be opened on.
func everyAddress(family byte) (all []netip.Addr, err error) {
	p, err := nd.OpenProvider()
	if err != nil {
		return nil, err
	}
	list, err := p.QueryAddressList()
	err = errors.Join(err, p.Close())
	for _, a := range list {
		if fits(family, a) {
			all = append(all, a)
		}
	}
	return all, err
}

func (l *ListenConfig) listenOne(at netip.AddrPort) (*Listener, error) {
	n, err := l.network(at.Addr().WithZone(""))
	if err != nil {
		return nil, err
	}
	defer n.drop()
	one, err := n.listen(netip.AddrPortFrom(at.Addr().WithZone(""), at.Port()))
	if err != nil {
		return nil, err
	}
	one.keep = l.KeepAliveConfig // before anybody can call Accept
	return one, nil
}

func closeAll(all []net.Listener) (err error) {
	for _, l := range all {
		err = errors.Join(err, l.Close())
	}
	return err
}

// merged accepts from several listeners.
type merged struct {
	all      []net.Listener
	accepted chan accepted
	done     chan struct{}
	deadline acceptDeadline
	once     sync.Once
	err      error // why it is over; set before done is closed
}

// accepted is what Accept of one listener returned: a connection, or an error that passes.
type accepted struct {
	conn net.Conn
	err  error
}

func merge(all []net.Listener) *merged {
	m := &merged{all: all, accepted: make(chan accepted), done: make(chan struct{})}
	for _, l := range all {
		go m.run(l)
	}
	return m
}

// run accepts from one listener. When one fails, all end; an error that passes, such as the want of a descriptor, is the caller's.
func (m *merged) run(l net.Listener) {
	for {
		c, err := l.Accept()
		var passing interface{ Temporary() bool }
		if err != nil && (!errors.As(err, &passing) || !passing.Temporary()) {
			_ = m.end(err)
			return
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

func (m *merged) end(why error) (err error) {
	err = net.ErrClosed
	m.once.Do(func() {
		m.err = why
		close(m.done)
		err = closeAll(m.all)
	})
	return err
}

// Accept waits for the next connection of any of the listeners, or for an error of one that passes, such as the want of a descriptor: the caller may go on then, as with package net.
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

// Close ends all of them.
func (m *merged) Close() error {
	closed := &net.OpError{Op: "accept", Net: "nd", Addr: m.Addr(), Err: net.ErrClosed}
	if err := m.end(closed); err != nil {
		return &net.OpError{Op: "close", Net: "nd", Addr: m.Addr(), Err: err}
	}
	return nil
}

// Addr is the address of the first: that of TCP where it accepts TCP.
func (m *merged) Addr() net.Addr { return m.all[0].Addr() }
