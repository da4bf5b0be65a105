package nd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/ndxdp/ndxdp/internal/host"
)

// Provider lists the addresses that adapters can be opened on, and reports when they change (IND2Provider, and the helper functions that ND
// programs call before it). It uses the network namespace of the thread that opened it. A program that knows its address does not need a
// Provider: OpenAdapter is enough.
//
// All methods may be called from any goroutine.
type Provider struct {
	net  *host.Addresses
	life context.Context // ends with Close
	end  context.CancelFunc

	mu      sync.Mutex
	seen    []netip.Addr           // the addresses last reported to the application; guarded by mu
	waiting map[chan struct{}]bool // the calls of NotifyAddressChange to cancel; guarded by mu
}

// OpenProvider starts to follow the addresses of the calling thread's network namespace. It needs no privileges.
//
// Errors: ErrDeviceNotReady when the kernel gives no route netlink socket.
func OpenProvider() (*Provider, error) {
	net, err := host.OpenAddresses()
	if err != nil {
		return nil, &Error{Op: "open provider", Status: ErrDeviceNotReady, Err: err}
	}
	p := &Provider{net: net, waiting: map[chan struct{}]bool{}}
	p.life, p.end = context.WithCancel(context.Background())
	if p.seen, err = net.List(); err != nil {
		net.Close()
		return nil, &Error{Op: "open provider", Status: ErrDeviceNotReady, Err: err}
	}
	return p, nil
}

// QueryAddressList returns the local addresses that adapters can be opened on. Each address is an adapter of its own. Addresses of loopback
// interfaces come last. NotifyAddressChange reports changes made after this call.
//
// Errors: ErrDeviceNotReady after Close.
func (p *Provider) QueryAddressList() ([]netip.Addr, error) {
	list, err := p.list("query address list")
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.seen = list
	p.mu.Unlock()
	return slices.Clone(list), nil
}

func (p *Provider) list(op string) ([]netip.Addr, error) {
	if p.life.Err() != nil {
		return nil, &Error{Op: op, Status: ErrDeviceNotReady}
	}
	list, err := p.net.List()
	if err != nil {
		return nil, &Error{Op: op, Status: ErrDeviceNotReady, Err: err}
	}
	return list, nil
}

// CheckAddress says whether an adapter can be opened on addr (NdCheckAddress).
//
// Errors: ErrInvalidAddress, ErrDeviceNotReady after Close.
func (p *Provider) CheckAddress(addr netip.Addr) error { return p.check("check address", addr) }

func (p *Provider) check(op string, addr netip.Addr) error {
	list, err := p.list(op)
	if err == nil && !slices.Contains(list, addr.Unmap()) {
		err = &Error{Op: op, Local: netip.AddrPortFrom(addr, 0), Status: ErrInvalidAddress}
	}
	return err
}

// ResolveAddress returns the id of the adapter that has the local address. It equals Info.AdapterID.
//
// Errors: ErrInvalidAddress if QueryAddressList does not have the address, ErrDeviceNotReady after Close.
func (p *Provider) ResolveAddress(addr netip.Addr) (id uint64, err error) {
	if err := p.check("resolve address", addr); err != nil {
		return 0, err
	}
	return adapterID(addr), nil
}

// QueryAdapter returns what Adapter.Query would return for an adapter with the address and the default configuration. It does not open the
// adapter.
//
// Errors: ErrInvalidAddress if QueryAddressList does not have the address, ErrDeviceNotReady after Close.
func (p *Provider) QueryAdapter(addr netip.Addr) (Info, error) {
	const op = "query adapter"
	if err := p.check(op, addr); err != nil {
		return Info{}, err
	}
	return infoOf(addr.Unmap(), defaultFlags|AdapterLoopbackConnections), nil
}

// SourceAddress returns the local address for a connection to remote (NdResolveAddress). A link-local remote needs a zone. The result is
// then a link-local address with the same zone, which OpenAdapter accepts.
//
// Errors: ErrInvalidAddress if remote cannot be connected to or the route leads to no adapter. ErrNetworkUnreachable without a route, or
// with a route that refuses (blackhole, prohibit, unreachable, throw). ErrDeviceNotReady after Close, ErrUnsuccessful for any other answer
// of the kernel.
func (p *Provider) SourceAddress(remote netip.Addr) (netip.Addr, error) {
	const op = "source address"
	refuse := func(s Status, err error) (netip.Addr, error) {
		return netip.Addr{}, &Error{Op: op, Remote: netip.AddrPortFrom(remote, 0), Status: s, Err: err}
	}
	if p.life.Err() != nil {
		return refuse(ErrDeviceNotReady, nil)
	}
	local := remote.Is6() && remote.IsLinkLocalUnicast()
	switch {
	case !remote.IsValid() || remote.IsUnspecified() || remote.IsMulticast():
		return refuse(ErrInvalidAddress, errors.New("it is not the address of one host"))
	case local && remote.Zone() == "":
		return refuse(ErrInvalidAddress, fmt.Errorf("a link-local address needs the name of its interface behind it, as in %s%%eth0", remote))
	}
	src, err := p.net.Source(remote)
	switch {
	case errors.Is(err, host.ErrNoRoute):
		return refuse(ErrNetworkUnreachable, err)
	case err != nil:
		return refuse(ErrUnsuccessful, err)
	}
	if local && src.Zone() != "" { // the list has no link-local addresses
		return src, nil
	}
	if err := p.check(op, src); err != nil {
		return netip.Addr{}, err
	}
	return src, nil
}

// OpenAdapter opens the adapter with an id from ResolveAddress; cfg.Address is ignored. Like the function OpenAdapter, it must be called in
// the network namespace that has the address.
//
// Errors: ErrInvalidParameter for an id that no address has, ErrDeviceNotReady after Close, and those of OpenAdapter.
func (p *Provider) OpenAdapter(id uint64, cfg AdapterConfig) (*Adapter, error) {
	list, err := p.list("open adapter")
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(a netip.Addr) bool { return adapterID(a) == id })
	if at < 0 {
		return nil, &Error{Op: "open adapter", Status: ErrInvalidParameter}
	}
	cfg.Address = list[at]
	return OpenAdapter(cfg)
}

// NotifyAddressChange waits until the addresses differ from the last result of QueryAddressList and from the last change that
// NotifyAddressChange reported. It may also return for a change that has been undone meanwhile.
//
// Errors: ErrCanceled (with the context's cause) if ctx ended or after CancelOverlappedRequests or Close; ErrDeviceNotReady after Close.
func (p *Provider) NotifyAddressChange(ctx context.Context) error {
	const op = "notify address change"
	if err := checkContext(op, ctx); err != nil {
		return err
	}
	if p.life.Err() != nil {
		return &Error{Op: op, Status: ErrDeviceNotReady}
	}
	canceled := make(chan struct{})
	p.mu.Lock()
	p.waiting[canceled] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, canceled)
		p.mu.Unlock()
	}()
	for {
		changed := p.net.Changed() // taken before the list is read, so that no change is missed
		list, err := p.list(op)
		switch {
		case p.life.Err() != nil: // Close has closed the socket, so the list's error does not matter
			return &Error{Op: op, Status: ErrCanceled}
		case err != nil:
			return err
		}
		p.mu.Lock()
		same := slices.Equal(list, p.seen)
		p.seen = list
		p.mu.Unlock()
		if !same {
			return nil
		}
		select {
		case <-changed:
		case <-canceled:
			return &Error{Op: op, Status: ErrCanceled}
		case <-p.life.Done():
			return &Error{Op: op, Status: ErrCanceled}
		case <-ctx.Done():
			return &Error{Op: op, Status: ErrCanceled, Err: context.Cause(ctx)}
		}
	}
}

// CancelOverlappedRequests ends every waiting NotifyAddressChange with ErrCanceled.
func (p *Provider) CancelOverlappedRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.waiting {
		close(c)
	}
	clear(p.waiting)
}

// Close ends every waiting call. Opened adapters stay open. Closing again fails with ErrDeviceNotReady, and is harmless.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return &Error{Op: "close provider", Status: ErrDeviceNotReady}
	}
	p.end()
	p.net.Close()
	return nil
}
