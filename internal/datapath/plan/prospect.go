package plan

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/sharing"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// Gather collects the facts on which the choice of a datapath depends, for the calling thread. Plain sockets need none of these facts.
func Gather(cfg *Config, nic *xdp.NIC, at *host.Stack, shared string) facts {
	f := facts{addr: cfg.Address, nic: *nic, stack: *at, shared: shared, arena: cfg.Arena, named: cfg.Broker != "", lockable: host.Unlimited, room: host.RoomOfGroups()}
	if cfg.Datapath == UDP || f.named {
		return f
	}
	f.xdp, f.bpf, f.ring, f.multi = xdp.Supported(), bpf.Supported(), bpf.RingSupported(), xdp.MultiBufferSupported()
	f.lacks(xdp.MissingCapabilities())
	f.broker = broker.Believed(cfg.UsualBroker(nic.Name))
	if holder, err := bpf.Holder(nic.Index, nic.Name); err == nil && holder != nil { // if the holder cannot be queried, attaching reports the error
		f.held = holder
	}
	if free, limit := host.MayLock(); !free {
		f.lockable = limit
	}
	return f
}

// lacks sets errors that name the capabilities missing for AF_XDP and for a ring, in place of the kernel's errors.
func (f *facts) lacks(missing []string) {
	if len(missing) > 0 && errors.Is(f.xdp, xdp.ErrPermission) {
		f.xdp, f.bpf = &rightsError{"AF_XDP", f.nic.Name, missing}, nil
	}
	if missing = ForRing(missing); len(missing) > 0 && f.ring != nil {
		f.ring = &rightsError{"a ring", f.nic.Name, missing}
	}
}

// Foreseen is the datapath that Open would choose.
type Foreseen struct {
	Datapath Datapath
	Reason   string // the reason, as in Info
	// Refused is the reason why AF_XDP, or the datapath that the program chose, is impossible; nil if it is possible.
	Refused error
	// Locked is the number of bytes that the process must be allowed to lock for AF_XDP. It is 0 if the limit suffices, or if AF_XDP is
	// impossible anyway.
	Locked uint64
}

// Prospect returns what Open would choose with cfg on an interface of the calling thread's network namespace, and the reason. It opens
// nothing, so it cannot foresee what a driver or a broker will refuse. The error is the error that Open would return.
func Prospect(nic *xdp.NIC, cfg Config) (Foreseen, error) {
	if cfg.UDPPort == 0 {
		cfg.UDPPort = wire.DefaultPort
	}
	cfg.SplitZone()
	cfg.Address = cfg.Address.Unmap()
	nl, err := host.OpenNetlink()
	if err != nil {
		return Foreseen{}, err
	}
	if nl != nil {
		defer nl.Close()
	}
	s, err := host.InspectStack(nl, nic)
	if err != nil {
		return Foreseen{}, err
	}
	shared := ""
	at := sharing.Port(cfg.Address, cfg.UDPPort, nic.Index)
	if taken, err := sharing.HasAdapter(at); err == nil && taken { // if the query fails, Open reports it
		shared = sharing.Reason(at)
	}
	f := Gather(&cfg, nic, &s, shared)
	if nl == nil {
		f.Netlink = host.ErrBlind
	}
	return foresee(&cfg, &f)
}

// foresee is Prospect with facts that are given.
func foresee(cfg *Config, f *facts) (Foreseen, error) {
	list, refused := List(cfg.Datapath, f)
	p := Foreseen{Refused: refused}
	var lacks *lockError
	if errors.As(refused, &lacks) && lacks.group == "" {
		p.Locked = lacks.need
	}
	asks := ""
	for i := range list {
		c := &list[i]
		if c.Opener == OpenBroker && !f.named {
			asks = "; the broker at " + cfg.UsualBroker(f.nic.Name) + " is asked for a lease of AF_XDP first"
			continue
		}
		p.Datapath, p.Reason = c.Datapath(), c.Reason
		if c.Sender == sendSocket {
			p.Reason += asks
		}
		if c.Datapath() == Ring && c.Reason != AskedFor {
			p.Reason += RingReason
		}
		return p, nil
	}
	return p, refused
}

// Unsuited returns the reason why a datapath would lose packets on an interface of the calling thread's network namespace, or nil.
func Unsuited(nic *xdp.NIC, addr netip.Addr, want Datapath) error {
	nl, err := host.OpenNetlink()
	if err != nil {
		return err
	}
	if nl != nil {
		defer nl.Close()
	}
	s, err := host.InspectStack(nl, nic)
	if err == nil {
		f := facts{addr: addr, nic: *nic, stack: s}
		_, err = f.suited(want)
	}
	return err
}

// ForRing returns the capabilities that a ring needs, of the capabilities of AF_XDP.
func ForRing(missing []string) []string {
	return slices.DeleteFunc(slices.Clone(missing), func(s string) bool { return s == xdp.MissingNetRaw })
}

// RingReason is the reason of a datapath with a ring beside plain sockets.
const RingReason = "; small packets arrive in a ring"
