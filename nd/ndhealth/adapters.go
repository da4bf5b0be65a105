package ndhealth

import (
	"errors"
	"net"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/nd"
)

// Adapter is an adapter that nd.OpenAdapter can open.
type Adapter struct {
	Address   netip.Addr  `json:"address"`
	Interface string      `json:"interface"`
	Driver    string      `json:"driver,omitempty"` // empty if unknown
	RxQueues  int         `json:"rx_queues"`
	TxQueues  int         `json:"tx_queues"`
	MTU       int         `json:"mtu"`     // bytes
	Carrier   bool        `json:"carrier"` // the interface has a carrier
	Datapath  nd.Datapath `json:"datapath"`
	Reason    string      `json:"reason"` // why nd.DatapathAuto selects this datapath, or none
	Limits    nd.Info     `json:"limits"`
	OpenBy    []Running   `json:"open_by,omitempty"` // processes that have it open, if they can be inspected
}

// Adapters lists the adapters of the calling thread's network namespace, in the order of nd.Provider.QueryAddressList. It fails if
// the kernel does not list interfaces.
func Adapters() (list []Adapter, err error) {
	p, err := nd.OpenProvider()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	addrs, err := p.QueryAddressList()
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		nic, err := host.InterfaceOf(addr)
		if err != nil {
			return nil, err
		}
		limits, err := p.QueryAdapter(addr)
		if err != nil {
			return nil, err
		}
		a := Adapter{
			Address: addr, Interface: nic.Name, Driver: nic.Driver, RxQueues: nic.RxQueues, TxQueues: nic.TxQueues, MTU: nic.MTU,
			Carrier: carrierOf(&nic), Limits: limits, OpenBy: inspect(addr),
		}
		auto, err := plan.Prospect(&nic, plan.Config{Address: addr, Arena: defaultArena})
		if err != nil {
			auto.Reason = err.Error()
		}
		a.Datapath, a.Reason = nd.Datapath(auto.Datapath), auto.Reason
		list = append(list, a)
	}
	return list, nil
}

// AllAddresses lists the addresses of an interface that an adapter can use. IPv6 link-local addresses are included only if
// requested.
func addressesOf(i *net.Interface, linkLocal bool) ([]netip.Addr, error) {
	var list []netip.Addr
	all, err := i.Addrs()
	if err != nil { // netlink may be forbidden
		assigned, err := host.AssignedTo(i.Name)
		for _, ip := range assigned {
			if linkLocal || !linkLocal6(ip) {
				list = append(list, ip)
			}
		}
		return list, err
	}
	for _, a := range all {
		n, isNet := a.(*net.IPNet)
		if !isNet {
			continue
		}
		ip, _ := netip.AddrFromSlice(n.IP)
		if ip = ip.Unmap(); ip.IsValid() && (linkLocal || !linkLocal6(ip)) {
			list = append(list, ip)
		}
	}
	return list, nil
}

func linkLocal6(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }
