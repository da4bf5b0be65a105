package nd

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/verbs"
)

// openNear opens the provider and an adapter on a loopback address.
func openNear(t *testing.T, id func(p *Provider) uint64, cfg AdapterConfig) error {
	p, err := OpenProvider()
	must(t, err)
	defer p.Close()
	cfg.Datapath, cfg.UDPPort = DatapathUDP, netlabtest.FreePort(t)
	a, err := p.OpenAdapter(id(p), cfg)
	if err == nil {
		err = a.Close()
	}
	return err
}

// provided makes a call on a provider in the namespace of the first adapter.
func provided(call func(t *testing.T, p *Provider, r *rig) error) provoke {
	return func(t *testing.T, r *rig) error { return call(t, openProvider(t, r.pair.A), r) }
}

var adapterRows = map[string]provoke{
	"IUnknown/Release/(count)": func(t *testing.T, r *rig) error {
		client, _ := r.connect(t, 4096)
		for range 2 { // the connection is still being torn down when the first call returns
			must(t, client.ctr.Close())
			must(t, client.qp.Close())
		}
		return nil
	},
	"IND2Provider/QueryAddressList/ND_SUCCESS": provided(func(t *testing.T, p *Provider, r *rig) error {
		list, err := p.QueryAddressList()
		if !slices.Contains(list, r.addr[0]) {
			t.Errorf("%v, want %v among them", list, r.addr[0])
		}
		return err
	}),
	"IND2Provider/ResolveAddress/ND_SUCCESS": provided(func(t *testing.T, p *Provider, r *rig) error {
		id, err := p.ResolveAddress(r.addr[0])
		if info, failed := r.a.Query(); failed != nil || info.AdapterID != id {
			t.Errorf("id %d, want %d, %v", id, info.AdapterID, failed)
		}
		return err
	}),
	"IND2Provider/ResolveAddress/ND_INVALID_ADDRESS": provided(func(_ *testing.T, p *Provider, r *rig) error {
		_, err := p.ResolveAddress(r.addr[1])
		return err
	}),
	"IND2Provider/OpenAdapter/ND_SUCCESS": func(t *testing.T, _ *rig) error {
		return openNear(t, func(p *Provider) uint64 {
			id, err := p.ResolveAddress(netip.MustParseAddr("127.0.0.1")) // the address that the provider lists
			must(t, err)
			return id
		}, AdapterConfig{})
	},
	"IND2Provider/OpenAdapter/ND_INVALID_PARAMETER": func(t *testing.T, _ *rig) error {
		return openNear(t, func(*Provider) uint64 { return 0 }, AdapterConfig{})
	},
	"IND2Provider/OpenAdapter/ND_NO_MEMORY": func(t *testing.T, _ *rig) error {
		pair := netlabtest.Pair(t, netlab.PairConfig{})
		p := openProvider(t, pair.A)
		id, err := p.ResolveAddress(pair.AddrA.Addr())
		must(t, err)
		return pair.A.Do(func() error { // more send memory than the address space has
			a, err := p.OpenAdapter(id, AdapterConfig{Datapath: DatapathGeneric, ArenaBytes: 1 << 47})
			if err == nil {
				must(t, a.Close())
			}
			return err
		})
	},
	"IND2Adapter/Query/ND_SUCCESS": func(t *testing.T, r *rig) error {
		i, err := r.a.Query()
		// Properties that ND programs rely on (ND.md section 4).
		if i.Flags&AdapterInOrderDMA == 0 || i.InlineRequestThreshold > i.MaxInlineDataSize || i.MaxReceiveQueueDepth != i.MaxInitiatorQueueDepth ||
			i.MaxTransferLength < 64<<20 || i.MaxRegistrationSize < 64<<20 || i.MaxCallerData < 40 || i.MaxCalleeData < 40 ||
			i.MaxInboundReadLimit < 1 || i.MaxOutboundReadLimit < 1 || i.MaxReadSGE > i.MaxInitiatorSGE || i.MaxWindowSize != i.MaxRegistrationSize {
			t.Errorf("%+v", i)
		}
		cq, failed := r.a.CreateCompletionQueue(i.MaxCompletionQueueDepth)
		must(t, failed)
		must(t, cq.Close())
		return err
	},
	"IND2Adapter/QueryAddressList/ND_SUCCESS": func(t *testing.T, r *rig) error {
		if list := r.a.QueryAddressList(); !slices.Equal(list, r.addr[:1]) {
			t.Errorf("%v", list)
		}
		return nil
	},
}

// exhausted opens an adapter, uses up its objects of a kind, and creates one more.
func exhausted(k verbs.ObjectKind, one func(t *testing.T, a *Adapter) error) provoke {
	return func(t *testing.T, _ *rig) error {
		r := newRig(t, 1500, DatapathAuto)
		must(t, one(t, r.a))
		for r.a.verbs.Objects.Take(k) {
		}
		return one(t, r.a)
	}
}

// makeQP makes a queue pair with one invalid setting.
func makeQP(spoil func(cfg *QueuePairConfig, info Info, r *rig)) provoke {
	return func(t *testing.T, r *rig) error {
		info, err := r.a.Query()
		must(t, err)
		cq, err := r.a.CreateCompletionQueue(1)
		must(t, err)
		cfg := QueuePairConfig{
			ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 4, InitiatorDepth: 4, MaxReceiveSGE: info.MaxReceiveSGE,
			MaxInitiatorSGE: info.MaxInitiatorSGE, InlineSize: info.MaxInlineDataSize,
		}
		spoil(&cfg, info, r)
		qp, err := r.a.CreateQueuePair(cfg)
		if err == nil {
			must(t, qp.Close())
		}
		must(t, cq.Close())
		return err
	}
}

func oneCQ(_ *testing.T, a *Adapter) error { _, err := a.CreateCompletionQueue(1); return err }

func oneQP(t *testing.T, a *Adapter) error {
	cq, err := a.CreateCompletionQueue(1)
	must(t, err)
	_, err = a.CreateQueuePair(QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq})
	return err
}
func oneRegion(_ *testing.T, a *Adapter) error { _, err := a.CreateMemoryRegion(); return err }

func oneConnector(_ *testing.T, a *Adapter) error { _, err := a.CreateConnector(); return err }
func oneListener(_ *testing.T, a *Adapter) error  { _, err := a.CreateListener(); return err }

// onFirst calls a Create method on the first adapter.
func onFirst(one func(t *testing.T, a *Adapter) error) provoke {
	return func(t *testing.T, r *rig) error { return one(t, r.a) }
}

var createRows = map[string]provoke{
	"IND2Adapter/CreateCompletionQueue/ND_SUCCESS":                onFirst(oneCQ),
	"IND2Adapter/CreateCompletionQueue/ND_INSUFFICIENT_RESOURCES": exhausted(verbs.ObjectCQ, oneCQ),
	"IND2Adapter/CreateCompletionQueue/ND_INVALID_PARAMETER_3": func(t *testing.T, r *rig) error {
		info, err := r.a.Query()
		must(t, err)
		_, err = r.a.CreateCompletionQueue(info.MaxCompletionQueueDepth + 1)
		wantStatus(t, "too deep", err, ErrInvalidParameterN(3))
		_, err = r.a.CreateCompletionQueue(0)
		return err
	},
	"IND2Adapter/CreateMemoryRegion/ND_INSUFFICIENT_RESOURCES": exhausted(verbs.ObjectMR, oneRegion),
	"IND2Adapter/CreateMemoryRegion/ND_SUCCESS": func(t *testing.T, r *rig) error {
		m, err := r.a.CreateMemoryRegion()
		if err == nil && (m.Bytes() != nil || m.Address() != 0 || m.LocalToken() != 0) {
			t.Error("an empty region has memory")
		}
		return err
	},
	"IND2Adapter/CreateQueuePair/ND_SUCCESS": makeQP(func(*QueuePairConfig, Info, *rig) {}),
	"IND2Adapter/CreateQueuePair/ND_INVALID_PARAMETER_2": makeQP(func(c *QueuePairConfig, _ Info, r *rig) {
		c.ReceiveCQ, _ = r.b.CreateCompletionQueue(1)
	}),
	"IND2Adapter/CreateQueuePair/ND_INVALID_PARAMETER_3": makeQP(func(c *QueuePairConfig, _ Info, _ *rig) { c.InitiatorCQ = nil }),
	"IND2Adapter/CreateQueuePair/ND_INVALID_PARAMETER_5": makeQP(func(c *QueuePairConfig, i Info, _ *rig) {
		c.ReceiveDepth = i.MaxReceiveQueueDepth + 1
	}),
	"IND2Adapter/CreateQueuePair/ND_INVALID_PARAMETER_6": makeQP(func(c *QueuePairConfig, i Info, _ *rig) {
		c.InitiatorDepth = i.MaxInitiatorQueueDepth + 1
	}),
	"IND2Adapter/CreateQueuePair/ND_INVALID_PARAMETER_7":    makeQP(func(c *QueuePairConfig, _ Info, _ *rig) { c.MaxReceiveSGE++ }),
	"IND2Adapter/CreateQueuePair/ND_INVALID_PARAMETER_8":    makeQP(func(c *QueuePairConfig, _ Info, _ *rig) { c.MaxInitiatorSGE++ }),
	"IND2Adapter/CreateQueuePair/ND_INVALID_PARAMETER_9":    makeQP(func(c *QueuePairConfig, _ Info, _ *rig) { c.InlineSize++ }),
	"IND2Adapter/CreateQueuePair/ND_INSUFFICIENT_RESOURCES": exhausted(verbs.ObjectQP, oneQP),
	"IND2Adapter/CreateConnector/ND_SUCCESS":                onFirst(oneConnector),
	"IND2Adapter/CreateConnector/ND_INSUFFICIENT_RESOURCES": exhausted(verbs.ObjectConnector, oneConnector),
	"IND2Adapter/CreateListener/ND_SUCCESS":                 onFirst(oneListener),
	"IND2Adapter/CreateListener/ND_INSUFFICIENT_RESOURCES":  exhausted(verbs.ObjectListener, oneListener),
}

var helperRows = map[string]provoke{
	"NdHelper/NdStartup/ND_SUCCESS": func(t *testing.T, r *rig) error {
		first := openProvider(t, r.pair.A)
		var second *Provider
		err := r.pair.A.Do(func() (err error) { second, err = OpenProvider(); return err })
		if err != nil {
			return err
		}
		must(t, first.Close()) // each of the two provider starts ends separately
		if list, err := second.QueryAddressList(); err != nil || !slices.Contains(list, r.addr[0]) || slices.Contains(list, r.addr[1]) {
			t.Errorf("%v, %v: the second start ended with the first, or knows other addresses", list, err)
		}
		if _, err := first.QueryAddressList(); !errors.Is(err, ErrDeviceNotReady) {
			t.Errorf("the first start did not end: %v", err)
		}
		must(t, second.Close())
		return nil
	},
	"NdHelper/NdCleanup/ND_SUCCESS": provided(func(_ *testing.T, p *Provider, _ *rig) error { return p.Close() }),
	"NdHelper/NdCleanup/ND_DEVICE_NOT_READY": provided(func(t *testing.T, p *Provider, _ *rig) error {
		must(t, p.Close())
		return p.Close()
	}),
	"NdHelper/NdQueryAddressList/ND_SUCCESS": provided(func(t *testing.T, p *Provider, r *rig) error {
		list, err := p.QueryAddressList()
		if !slices.Contains(list, r.addr[0]) {
			t.Errorf("%v, want %v among them", list, r.addr[0])
		}
		return err
	}),
	"NdHelper/NdQueryAddressList/ND_DEVICE_NOT_READY": provided(func(t *testing.T, p *Provider, _ *rig) error {
		must(t, p.Close())
		_, err := p.QueryAddressList()
		return err
	}),
	"NdHelper/NdResolveAddress/ND_SUCCESS": provided(func(t *testing.T, p *Provider, r *rig) error {
		src, err := p.SourceAddress(r.addr[1])
		if src != r.addr[0] {
			t.Errorf("source address %v, want %v", src, r.addr[0])
		}
		return err
	}),
	"NdHelper/NdResolveAddress/ND_INVALID_ADDRESS": provided(func(_ *testing.T, p *Provider, _ *rig) error {
		_, err := p.SourceAddress(netip.MustParseAddr("224.0.0.1"))
		return err
	}),
	"NdHelper/NdResolveAddress/ND_NETWORK_UNREACHABLE": provided(func(_ *testing.T, p *Provider, _ *rig) error {
		_, err := p.SourceAddress(netip.MustParseAddr("192.0.2.1"))
		return err
	}),
	"NdHelper/NdResolveAddress/ND_UNSUCCESSFUL": provided(func(t *testing.T, p *Provider, r *rig) error {
		must(t, r.pair.A.Do(func() error { // a route of type prohibit or unreachable counts as none
			_, forbidden, err := net.ParseCIDR("203.0.113.0/24")
			must(t, err)
			return netlink.RouteReplace(&netlink.Route{Dst: forbidden, Type: unix.RTN_PROHIBIT})
		}))
		_, err := p.SourceAddress(netip.MustParseAddr("203.0.113.1"))
		wantStatus(t, "source address behind a prohibited route", err, ErrNetworkUnreachable)
		p.net.Close() // SourceAddress cannot query the kernel
		_, err = p.SourceAddress(r.addr[1])
		return err
	}),
	"NdHelper/NdResolveAddress/ND_DEVICE_NOT_READY": provided(func(t *testing.T, p *Provider, r *rig) error {
		must(t, p.Close())
		_, err := p.SourceAddress(r.addr[1])
		return err
	}),
	"NdHelper/NdCheckAddress/ND_SUCCESS": provided(func(_ *testing.T, p *Provider, r *rig) error { return p.CheckAddress(r.addr[0]) }),
	"NdHelper/NdCheckAddress/ND_INVALID_ADDRESS": provided(func(_ *testing.T, p *Provider, r *rig) error {
		return p.CheckAddress(r.addr[1])
	}),
	"NdHelper/NdCheckAddress/ND_DEVICE_NOT_READY": provided(func(t *testing.T, p *Provider, r *rig) error {
		must(t, p.Close())
		return p.CheckAddress(r.addr[0])
	}),
	"NdHelper/NdOpenAdapter/ND_SUCCESS": func(t *testing.T, _ *rig) error {
		a, err := OpenAdapter(AdapterConfig{Address: loopback[0], Datapath: DatapathUDP, UDPPort: netlabtest.FreePort(t)})
		must(t, err)
		return a.Close()
	},
	"NdHelper/NdOpenAdapter/ND_INVALID_ADDRESS": func(t *testing.T, r *rig) error {
		_, err := tryOpen(r.pair.A, AdapterConfig{Address: r.addr[1]})
		return err
	},
	"NdHelper/NdOpenAdapter/ND_DEVICE_NOT_READY": provided(func(t *testing.T, p *Provider, _ *rig) error {
		must(t, p.Close())
		_, err := p.OpenAdapter(1, AdapterConfig{})
		return err
	}),
}
