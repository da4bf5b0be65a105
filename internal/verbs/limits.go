package verbs

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/provider"
)

// The limits of every adapter (ND specification section 4), beside those of the engine. Queue depths are equal for both
// directions because ND programs use one number for both.
const (
	MaxRegistration = 1 << 40
	MaxQueueDepth   = 16384
	MaxSharedDepth  = 1 << 16 // enough for a few receives of each of thousands of queue pairs
	MaxCQDepth      = 1 << 18
	MaxInline       = 256
	MaxReadLimit    = 32
	LargeRequest    = 4096
	SGEFloor        = 4 // every queue takes at least so many entries, whatever was asked (R-SGE)
)

// SourcePorts is how many source ports a Connect tries, because over plain sockets another program may have one. They are
// random ones of 16384.
const SourcePorts = 4

// destination says whether connections can be made to an address at all: one that is of one host.
func destination(to netip.AddrPort) bool {
	ip := to.Addr().Unmap()
	limited := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() && ip != limited && to.Port() != 0
}

// inZone says whether an address is in the zone of the adapter's interface, or names none.
func (a *Adapter) inZone(ip netip.Addr) bool {
	if ip.Zone() == "" || a.Device == nil {
		return ip.Zone() == ""
	}
	i := a.Device.Info()
	return datapath.InZone(ip.Zone(), i.Interface, i.Index)
}

// AddrPort is the inverse of provider.EndpointFrom; the zero endpoint is no address.
func AddrPort(e provider.Endpoint) netip.AddrPort {
	if e == (provider.Endpoint{}) {
		return netip.AddrPort{}
	}
	return e.AddrPort()
}
