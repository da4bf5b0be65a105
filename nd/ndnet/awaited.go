package ndnet

import (
	"net"
	"net/netip"
	"sync"

	"github.com/ndxdp/ndxdp/internal/doorbell"
	"github.com/ndxdp/ndxdp/nd"
)

// awaited is a listener whose adapter is opened when the first packet arrives.
type awaited struct {
	config *ListenConfig
	on     Adapters
	at     netip.AddrPort
	bell   *doorbell.Bell

	mu     sync.Mutex
	one    *Listener
	closed bool
}

// listenLater reserves an address and a port until the first client calls.
func (l *ListenConfig) listenLater(on *Adapters, at netip.AddrPort) (*awaited, error) {
	port := on.UDPPort
	if port == 0 {
		port = nd.DefaultUDPPort
	}
	bell, err := doorbell.Hang(netip.AddrPortFrom(at.Addr(), port), at.Port())
	if err != nil {
		return nil, err
	}
	return &awaited{config: l, on: *on, at: at, bell: bell}, nil
}

// Accept implements net.Listener.
func (w *awaited) Accept() (net.Conn, error) {
	<-w.bell.Rung()
	one, err := w.opened()
	if err != nil {
		return nil, err
	}
	return one.Accept()
}

// opened opens the adapter, unless it is open. An adapter that was opened with other parameters may already have the reserved address: then
// the reservation is released first.
func (w *awaited) opened() (one *Listener, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, net.ErrClosed
	}
	if w.one != nil {
		return w.one, nil
	}
	if one, err = w.config.listenOne(&w.on, w.at); err != nil {
		_ = w.bell.Close()
		one, err = w.config.listenOne(&w.on, w.at)
	}
	_ = w.bell.Close() // the listener has the port
	w.one = one
	return one, err
}

// gone ends the listener if no client has called: then no adapter has to follow the address.
func (w *awaited) gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.one == nil {
		w.closed = true
		_ = w.bell.Close()
	}
}

// Close implements net.Listener.
func (w *awaited) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.one != nil {
		return w.one.Close()
	}
	return w.bell.Close()
}

// Addr implements net.Listener.
func (w *awaited) Addr() net.Addr { return net.TCPAddrFromAddrPort(w.at) }
