package nd

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

func openProvider(t *testing.T, ns *netlab.Namespace) (p *Provider) {
	t.Helper()
	must(t, ns.Do(func() (err error) { p, err = OpenProvider(); return err }))
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestProviderFindsAdapters(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	p := openProvider(t, r.pair.A)
	list, err := p.QueryAddressList()
	must(t, err)
	if !slices.Contains(list, r.addr[0]) || slices.Contains(list, r.addr[1]) {
		t.Fatalf("addresses %v", list)
	}
	id, err := p.ResolveAddress(r.addr[0])
	must(t, err)
	if info, err := r.a.Query(); err != nil || info.AdapterID != id {
		t.Errorf("the adapter's id is %d, %v; that of its address %d", info.AdapterID, err, id)
	}
	if src, err := p.SourceAddress(r.addr[1]); err != nil || src != r.addr[0] {
		t.Errorf("source address %v, %v", src, err)
	}
	var a *Adapter
	must(t, r.pair.A.Do(func() (err error) {
		lo, err := p.ResolveAddress(netip.MustParseAddr("127.0.0.1"))
		if err != nil {
			return err
		}
		a, err = p.OpenAdapter(lo, AdapterConfig{Datapath: DatapathUDP, UDPPort: 14999})
		return err
	}))
	if got := a.QueryAddressList(); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("127.0.0.1")}) {
		t.Errorf("the adapter's addresses are %v", got)
	}
	must(t, a.Close())
}

// QueryAdapter returns the same information as Query of the open adapter, also from another network namespace.
func TestQueryAdapterIsQuery(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	p := openProvider(t, pair.A)
	for _, addr := range []netip.Addr{pair.AddrA.Addr(), netip.MustParseAddr("127.0.0.1")} {
		before, err := p.QueryAdapter(addr)
		must(t, err)
		a := openIn(t, pair.A, AdapterConfig{Address: addr})
		after, err := a.Query()
		must(t, err)
		if before != after || before.Flags&AdapterLoopbackConnections == 0 {
			t.Errorf("%s: %+v before it is opened, %+v then; want one that reaches itself", addr, before, after)
		}
	}
	_, err := p.QueryAdapter(pair.AddrB.Addr())
	wantStatus(t, "the peer's address", err, ErrInvalidAddress)
	must(t, p.Close())
	_, err = p.QueryAdapter(pair.AddrA.Addr())
	wantStatus(t, "closed", err, ErrDeviceNotReady)
}

func TestProviderNoticesAddresses(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	p := openProvider(t, pair.A)
	waitOne := func(what string, change func(netlink.Link, *netlink.Addr) error) {
		t.Helper()
		done := start(func() error { return p.NotifyAddressChange(t.Context()) })
		eventually(t, "waiting", p.waits)
		must(t, pair.A.Do(func() error {
			link, err := netlink.LinkByName(netlab.DefaultName)
			if err != nil {
				return err
			}
			addr, err := netlink.ParseAddr("10.97.0.1/24")
			if err != nil {
				return err
			}
			return change(link, addr)
		}))
		wantStatus(t, what, finish(t, what, done), StatusSuccess)
	}
	waitOne("an address more", netlink.AddrAdd)
	list, err := p.QueryAddressList()
	must(t, err)
	if !slices.Contains(list, netip.MustParseAddr("10.97.0.1")) {
		t.Errorf("addresses %v", list)
	}
	waitOne("an address less", netlink.AddrDel)
}

func (p *Provider) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) > 0
}

func TestProviderWaitsEnd(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	p := openProvider(t, pair.A)
	for _, end := range []struct {
		name string
		call func()
	}{
		{"cancel", p.CancelOverlappedRequests},
		{"close", func() { must(t, p.Close()) }},
	} {
		done := start(func() error { return p.NotifyAddressChange(t.Context()) })
		eventually(t, "waiting", p.waits)
		end.call()
		wantStatus(t, end.name, finish(t, end.name, done), ErrCanceled)
	}
	if err := p.NotifyAddressChange(t.Context()); !errors.Is(err, ErrDeviceNotReady) {
		t.Errorf("notify after close: %v", err)
	}
}

// Close may come while a call reads the addresses. The result of the call is then undefined.
func TestProviderClosesUnderALook(t *testing.T) {
	t.Parallel()
	for range 200 {
		p, err := OpenProvider()
		must(t, err)
		done := start(func() error { return p.NotifyAddressChange(t.Context()) })
		eventually(t, "waiting", p.waits)
		must(t, p.Close())
		wantStatus(t, "close", finish(t, "close", done), ErrCanceled)
	}
}

func TestModerate(t *testing.T) {
	t.Parallel()
	n := newNotifyRig(t, commonRig(t))
	q := n.client.cq
	must(t, q.Moderate(-1, 3))
	done := n.notify(NotifyAny)
	n.plain(0)
	n.plain(0)
	n.pending("two of three results", done)
	n.plain(0)
	n.finished("three results", done, StatusSuccess)
	n.fetch(3)
	must(t, q.Moderate(time.Millisecond, 1000))
	n.plain(0)
	n.finished("the time passed", n.notify(NotifyAny), StatusSuccess)
	wantStatus(t, "no limit", q.Moderate(-1, 1<<31), ErrInvalidParameterMix)
}

// Resize works while results arrive and are fetched.
func TestResizeUnderTraffic(t *testing.T) {
	t.Parallel()
	client, server := commonRig(t).connect(t, 4096)
	const writes = 3000
	resized := start(func() error {
		for depth := 300; client.qp.qp.Outstanding() > 0 || depth < 310; depth = depth%4000 + 300 {
			if err := client.cq.Resize(depth); err != nil {
				return err
			}
		}
		return nil
	})
	var res [7]Result
	for posted, seen := uint64(0), uint64(0); seen < writes; {
		for posted < writes && posted-seen < 200 {
			must(t, client.qp.Write(posted, nil, server.mr.Address(), server.mr.RemoteToken(), 0))
			posted++
		}
		for _, r := range res[:client.cq.GetResults(res[:])] {
			if r.Status != StatusSuccess || r.RequestID != seen {
				t.Fatalf("result %+v, want that of request %d", r, seen)
			}
			seen++
		}
	}
	must(t, finish(t, "resize", resized))
}
