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
	// ownDatapaths is how many addresses of a listener on every address get the datapath that auto finds, at once. Further ones get plain sockets, when the first
	// packet comes to them: a machine may have hundreds of addresses, of which few are used, and a dozen descriptors for an adapter; and a program at tcx runs for
	// every packet of its interface, and the kernel takes 64 of them.
	ownDatapaths = 8
	// firstRetry and lastRetry are the shortest and the longest time after which an address that could not be listened on is tried again: another
	// process may have its port.
	firstRetry, lastRetry = 50 * time.Millisecond, 5 * time.Second
)

// everywhere listens on every address of the machine that an adapter can be opened on, as they come and go. That an address or an interface goes away ends
// no Accept.
type everywhere struct {
	*merged
	config   *ListenConfig
	family   byte
	port     uint16 // 0 until the first address gave a free one
	provider *nd.Provider

	life context.Context
	end  context.CancelFunc

	mu   sync.Mutex
	open map[netip.Addr]*awaited // nil for one whose adapter is open from the start
	lost bool                    // an address ended after follow looked
	wake context.CancelFunc      // has follow look at once
}

// listenEverywhere succeeds when one address can be listened on. With tcp it also accepts from that.
func (l *ListenConfig) listenEverywhere(family byte, port uint16, tcp net.Listener) (*everywhere, error) {
	p, err := nd.OpenProvider()
	if err != nil {
		return nil, err
	}
	e := &everywhere{
		merged: newMerged(nil), config: l, family: family, port: port, provider: p, open: map[netip.Addr]*awaited{}, wake: func() {},
	}
	e.life, e.end = context.WithCancel(context.Background())
	if tcp != nil {
		e.add(tcp, nil)
	}
	missing := e.adjust()
	if e.addr = e.address(tcp); len(e.open) == 0 {
		_ = e.Close()
		return nil, missing
	}
	go e.follow(missing)
	return e, nil
}

// address is what the listener says of itself: the unspecified address, as those of package net do.
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

// adjust listens on addresses that are not open yet, and leaves those alone that are gone and that nobody has called. The error is why some are missing.
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
			opening.Go(try) // it waits for the kernel most of the time
		}
	}
	opening.Wait()
	return missing
}

// leave ends the listeners of addresses that are not in a list and have no adapter, which would follow its address.
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

// wanted is an address that is to be listened on.
type wanted struct {
	addr  netip.Addr
	on    Adapters
	first bool // no other one is open: it finds a port that is free
	later bool // its adapter may be opened when the first packet comes
}

// wants says how an address is to be listened on, and notes that it is; nil when it is already, or is not to be.
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

// ended notes that the listener of an address is over. The address may be there again.
func (e *everywhere) ended(a netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, a)
	e.lost = true
	e.wake()
}

// follow listens on addresses that appear, leave the tentative state or are there again, and tries those again that it could not listen on.
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
			time.AfterFunc(lastRetry, cancel) // nobody tells of changes any more
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
		_ = e.provider.Close() // it fails when it is closed already
	}
	return err
}
