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
	// ownDatapaths is how many addresses of a listener on every address get the datapath that auto finds. Further ones get plain sockets, which open
	// in milliseconds: a program at tcx runs for every packet of its interface, and the kernel takes 64 of them.
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
	open map[netip.Addr]struct{}
	lost bool               // an address ended after follow looked
	wake context.CancelFunc // has follow look at once
}

// listenEverywhere succeeds when one address can be listened on. With tcp it also accepts from that.
func (l *ListenConfig) listenEverywhere(family byte, port uint16, tcp net.Listener) (*everywhere, error) {
	p, err := nd.OpenProvider()
	if err != nil {
		return nil, err
	}
	e := &everywhere{
		merged: newMerged(nil), config: l, family: family, port: port, provider: p, open: map[netip.Addr]struct{}{}, wake: func() {},
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

// adjust listens on addresses that are not open yet. The error is why some are missing.
func (e *everywhere) adjust() (missing error) {
	list, missing := e.provider.QueryAddressList()
	for _, a := range list {
		adapters, wanted := e.wants(a)
		if !wanted {
			continue
		}
		one, err := e.config.listenOne(&adapters, netip.AddrPortFrom(a, e.port))
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		e.port = one.addr.AddrPort().Port()
		e.mu.Lock()
		e.open[a] = struct{}{}
		e.mu.Unlock()
		e.add(one, func() { e.ended(a) })
	}
	return missing
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
