package ndnet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

const (
	// ownDatapaths is the number of addresses of a wildcard listener that get the datapath of DatapathAuto at once. Further
	// addresses get plain sockets when their first packet arrives. A machine may have hundreds of addresses, and few of them are
	// used. An adapter takes a dozen descriptors. A tcx program runs for every packet of its interface, and the kernel accepts 64
	// of them.
	ownDatapaths = 8
	// firstRetry and lastRetry are the shortest and the longest time before an address that could not be listened on is tried again:
	// another process may have its port.
	firstRetry, lastRetry = 50 * time.Millisecond, 5 * time.Second
)

// everywhere listens on every address of the machine that an adapter can be opened on, as addresses come and go. Accept goes on when an
// address or an interface disappears.
type everywhere struct {
	*merged
	config   *ListenConfig
	family   byte
	port     uint16 // 0 until the first address has found a free one
	provider *nd.Provider

	life context.Context
	end  context.CancelFunc

	mu   sync.Mutex
	open map[netip.Addr]*awaited // nil if the adapter was opened at once
	lost bool                    // an address ended after follow had looked
	wake context.CancelFunc      // makes follow look at once
}

// newEverywhere succeeds if at least one address can be listened on. With tcp it also accepts from tcp. missing is the reason why some or
// all addresses are missing.
func (l *ListenConfig) newEverywhere(family byte, port uint16, tcp net.Listener) (_ *everywhere, missing error) {
	p, err := nd.OpenProvider()
	if err != nil {
		return nil, err
	}
	if tcp != nil {
		port = tcp.Addr().(*net.TCPAddr).AddrPort().Port()
	}
	e := &everywhere{
		merged: newMerged(nil), config: l, family: family, port: port, provider: p, open: map[netip.Addr]*awaited{}, wake: func() {},
	}
	e.life, e.end = context.WithCancel(context.Background())
	missing = e.adjust()
	if e.addr = e.address(tcp); len(e.open) == 0 {
		_ = e.Close()
		return nil, missing
	}
	if tcp != nil {
		e.add(tcp, nil)
	}
	go e.follow(missing)
	return e, missing
}

// address returns the listener's address: the unspecified address, as in package net.
func (e *everywhere) address(tcp net.Listener) net.Addr {
	if tcp != nil {
		return tcp.Addr()
	}
	ip := net.IPv6unspecified
	if e.family == '4' {
		ip = net.IPv4zero
	}
	return &net.TCPAddr{IP: ip, Port: int(e.port)}
}

// adjust listens on new addresses, and ends listeners of vanished addresses that no client has called. The error is the reason why
// some addresses are missing.
func (e *everywhere) adjust() (missing error) {
	list, missing := e.provider.QueryAddressList()
	if missing == nil {
		e.leave(list)
	}
	var opening sync.WaitGroup
	for _, a := range list {
		w := e.wants(a)
		if w == nil {
			continue
		}
		try := func() {
			if err := e.listen(w); err != nil {
				e.mu.Lock()
				defer e.mu.Unlock()
				delete(e.open, a)
				missing = errors.Join(missing, err)
			}
		}
		if w.first || w.later {
			try()
		} else {
			opening.Go(try) // mostly waits for the kernel
		}
	}
	opening.Wait()
	return missing
}

// leave ends the listeners of addresses that are not in list and have no adapter. An adapter follows its address itself.
func (e *everywhere) leave(list []netip.Addr) {
	here := map[netip.Addr]struct{}{}
	for _, a := range list {
		here[a] = struct{}{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for a, w := range e.open {
		if _, ok := here[a]; !ok && w != nil {
			go w.gone() // it may be opening its adapter
		}
	}
}

// listen listens on one address.
func (e *everywhere) listen(w *wanted) error {
	at := netip.AddrPortFrom(w.addr, e.port)
	if w.later {
		if one, err := e.config.listenLater(&w.on, at); err == nil {
			e.mu.Lock()
			e.open[w.addr] = one
			e.mu.Unlock()
			e.add(one, func() { e.ended(w.addr) })
			return nil
		}
	}
	one, err := e.config.listenOne(&w.on, at)
	if err != nil {
		return err
	}
	if w.first {
		e.port = one.addr.AddrPort().Port()
	}
	e.add(one, func() { e.ended(w.addr) })
	return nil
}

// wanted is an address to listen on.
type wanted struct {
	addr  netip.Addr
	on    Adapters
	first bool // no other address is open: it chooses a free port
	later bool // its adapter may be opened when the first packet arrives
}

// wants describes how to listen on an address, and records that the listener does. It returns nil if the address is already
// listened on or is not wanted.
func (e *everywhere) wants(a netip.Addr) *wanted {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, open := e.open[a]
	if open || !fits(e.family, a) || e.life.Err() != nil {
		return nil
	}
	w := &wanted{addr: a, on: e.config.Adapters, first: len(e.open) == 0}
	if len(e.open) >= ownDatapaths {
		if w.on.Datapath == nd.DatapathAuto {
			w.on.Datapath = nd.DatapathUDP
		}
		w.later = w.on.Datapath == nd.DatapathUDP
	}
	e.open[a] = nil
	return w
}

// ended records that the listener of an address is over. The address may come back.
func (e *everywhere) ended(a netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, a)
	e.lost = true
	e.wake()
}

// follow listens on addresses that appear, leave the tentative state or come back, and retries addresses that failed.
func (e *everywhere) follow(missing error) {
	for retry := firstRetry; e.life.Err() == nil; missing = e.adjust() {
		ctx, cancel := context.WithCancel(e.life)
		if missing == nil {
			retry = firstRetry
		} else {
			time.AfterFunc(retry, cancel)
			retry = min(2*retry, lastRetry)
		}
		e.mu.Lock()
		if e.wake = cancel; e.lost {
			e.lost = false
			cancel()
		}
		e.mu.Unlock()
		if err := e.provider.NotifyAddressChange(ctx); err != nil && !errors.Is(err, nd.ErrCanceled) {
			time.AfterFunc(lastRetry, cancel) // changes are no longer reported
			<-ctx.Done()
		}
		cancel()
	}
}

// Close implements net.Listener.
func (e *everywhere) Close() error {
	e.end()
	err := e.merged.Close()
	if err == nil {
		_ = e.provider.Close() // fails if it is closed already
	}
	return err
}
