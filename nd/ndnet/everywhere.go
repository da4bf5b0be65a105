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
	for _, a := range list {
		adapters, wanted := e.wants(a)
		if !wanted {
			continue
		}
		if err := e.listen(&adapters, a); err != nil {
			missing = errors.Join(missing, err)
		}
	}
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

// listen listens on one address: later, where that is possible.
func (e *everywhere) listen(on *Adapters, a netip.Addr) error {
	at := netip.AddrPortFrom(a, e.port)
	if e.many() && on.Datapath == nd.DatapathUDP {
		if w, err := e.config.listenLater(on, at); err == nil {
			e.has(a, w, w)
			return nil
		}
	}
	one, err := e.config.listenOne(on, at)
	if err != nil {
		return err
	}
	e.port = one.addr.AddrPort().Port()
	e.has(a, nil, one)
	return nil
}

// many says that the listener has as many adapters as it opens at once.
func (e *everywhere) many() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.open) >= ownDatapaths
}

// has accepts from the listener of an address, which is awaited or not.
func (e *everywhere) has(a netip.Addr, w *awaited, l net.Listener) {
	e.mu.Lock()
	e.open[a] = w
	e.mu.Unlock()
	e.add(l, func() { e.ended(a) })
}

// wants says whether an address is to be listened on and is not yet, and by which adapter.
func (e *everywhere) wants(a netip.Addr) (adapters Adapters, yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, open := e.open[a]
	adapters = e.config.Adapters
	if adapters.Datapath == nd.DatapathAuto && len(e.open) >= ownDatapaths {
		adapters.Datapath = nd.DatapathUDP
	}
	return adapters, !open && fits(e.family, a) && e.life.Err() == nil
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
