package ndnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/ndxdp/ndxdp/nd"
)

// Listener is a net.Listener. Use Network.Listen.
//
// Connections complete before Accept is called, up to net.core.somaxconn, as over TCP. A further client waits in Dial until Accept makes
// room or its time is over; no client is refused for lack of room. One client host may occupy 2048 places with requests that it does not
// complete, and all places with connections, as over TCP.
type Listener struct {
	network  *Network
	listener *nd.Listener
	addr     *net.TCPAddr
	backlog  *backlog
	keep     net.KeepAliveConfig // for connections that Accept returns
	life     context.Context
	end      context.CancelFunc
	deadline acceptDeadline
	once     sync.Once
	failed   error // why Accept fails; set before life ends
}

// Listen accepts connections on an ND address of the adapter, such as "192.0.2.1:80". An empty host or an unspecified address is the
// adapter's own address. Port 0 is a free port. The network is one that Dialer.Dial takes.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	if err := checkName(network); err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	at, err := n.own(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "nd", Err: meaning(err)}
	}
	_, how := n.configured()
	l, err := n.listen(at, how)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "nd", Addr: n.tcpAddr(at), Err: meaning(err)}
	}
	return l, nil
}

// own is the adapter's address that a listen address means. Names are resolved.
func (n *Network) own(address string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if isUnspecified(host) {
		host = n.local.String()
	}
	all, err := resolve(context.Background(), nil, "", net.JoinHostPort(host, port))
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, at := range all {
		if at.Addr().WithZone("") == n.local {
			return netip.AddrPortFrom(n.local, at.Port()), nil
		}
	}
	return all[0], nil // the adapter says that the address is not its own
}

func (n *Network) listen(at netip.AddrPort, how admission) (*Listener, error) {
	under, err := n.adapter.CreateListener()
	if err != nil {
		return nil, err
	}
	if err = how.apply(under); err == nil {
		err = under.Bind(at)
	}
	if err == nil {
		err = under.Listen(0)
	}
	if err == nil {
		at, err = under.LocalAddress()
	}
	if err != nil {
		_ = under.Close()
		return nil, err
	}
	l := &Listener{network: n, listener: under, addr: n.tcpAddr(at), backlog: newBacklog(n.backlog)}
	l.life, l.end = context.WithCancel(context.Background())
	n.hold()
	go l.takeRequests()
	return l, nil
}

// takeRequests answers each request in a goroutine of its own, because an answer waits for the peer. When the listener is closed, it resets
// the connections that were not accepted.
func (l *Listener) takeRequests() {
	var answering sync.WaitGroup
	for number := uint64(0); l.life.Err() == nil; number++ {
		select {
		case l.backlog.places <- struct{}{}:
		case <-l.life.Done():
			continue
		}
		k, err := l.request()
		if err != nil {
			l.fail(err)
			break
		}
		answering.Go(func() {
			if c := l.answer(k); c == nil {
				l.backlog.leave() // the peer gave up or speaks another protocol
			} else if !l.backlog.push(number, c) {
				c.release()
			}
		})
	}
	for _, p := range l.backlog.close() {
		p.conn.release()
	}
	answering.Wait()
	l.network.drop()
	l.network.ending.end()
}

// request waits for the next request.
func (l *Listener) request() (*nd.Connector, error) {
	k, err := l.network.adapter.CreateConnector()
	if err != nil {
		return nil, err
	}
	if err := l.listener.GetConnectionRequest(l.life, k); err != nil {
		_ = k.Close()
		return nil, err
	}
	return k, nil
}

// answer establishes the connection of a request. It returns nil if the request failed.
func (l *Listener) answer(k *nd.Connector) *Conn {
	c, err := l.network.newConn(k)
	if err != nil {
		return nil // no resources; closing the connector refuses the peer
	}
	if c.greet() != nil {
		_ = k.Reject(nil)
		c.release()
		return nil
	}
	c.begin()
	ctx, cancel := context.WithTimeout(l.life, l.network.cfg.EstablishTimeout)
	defer cancel()
	if err := k.Accept(ctx, c.qp, c.params()); err != nil {
		c.release()
		return nil
	}
	return c
}

// fail ends the listener.
func (l *Listener) fail(err error) {
	l.once.Do(func() {
		l.network.ending.begin()
		l.failed = meaning(err)
		l.end()
		_ = l.listener.Close()
	})
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	for l.life.Err() == nil {
		if l.deadline.over() {
			return nil, l.opError("accept", os.ErrDeadlineExceeded)
		}
		if c := l.backlog.pop(); c != nil {
			_ = c.SetKeepAliveConfig(l.keep) // fails on closed connections only; no other goroutine has it yet
			return secured(c), nil
		}
		select {
		case <-l.backlog.arrived:
		case <-l.life.Done():
		case <-l.deadline.done():
			return nil, l.opError("accept", os.ErrDeadlineExceeded)
		}
	}
	return nil, l.opError("accept", l.failed)
}

// Close ends every Accept and resets the connections that were not accepted. Accepted connections stay alive. Closing twice is an error, as
// for other listeners.
func (l *Listener) Close() error {
	first := false
	l.once.Do(func() {
		first = true
		l.network.ending.begin()
		l.failed = net.ErrClosed
		l.end()
		_ = l.listener.Close() // never fails
	})
	if !first {
		return l.opError("close", net.ErrClosed)
	}
	return nil
}

// opError returns the error of a call on a listener.
func (l *Listener) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "nd", Addr: l.addr, Err: err}
}

// Addr returns the address that peers dial, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return l.addr }
