package ndhealth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/hostkey"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/xdp"
)

// Config describes an examination.
type Config struct {
	Interface string
	Address   netip.Addr  // an address of the interface; if invalid, its first address from which Peer can be asked, or else its first address
	Datapath  nd.Datapath // that programs will request
	UDPPort   uint16      // as in nd.AdapterConfig
	// Peer, if valid, is asked whether it has an adapter. This takes up to askPatience, and needs UDPPort to be free.
	Peer netip.Addr
}

// facts are the facts about an interface and the machine.
type facts struct {
	cfg     Config
	nic     xdp.NIC
	carrier bool // the interface has a carrier
	addr    netip.Addr
	addrs   []netip.Addr // all addresses of the interface

	auto      nd.Datapath // the datapath that nd.DatapathAuto selects
	reason    string
	refused   error // why it can select none
	forgone   error // why it does not select AF_XDP; nil if it does
	unopened  error // why the requested datapath cannot be opened; nil if it can, and for nd.DatapathAuto
	unsuited  error // why the requested datapath would lose packets on the interface
	blind     bool  // netlink sockets are forbidden, so interfaces are unknown
	kernel    string
	missing   []string // capabilities
	xdpError  error    // the kernel's reason; nil if rights are missing
	bpfError  error
	multi     bool // the kernel has AF_XDP multi-buffer, or this is unknown
	memlock   uint64
	lockFree  bool   // the process has CAP_IPC_LOCK, so the limit does not apply
	denied    uint64 // bytes that auto could not pin for AF_XDP; 0 if it could, or does not need them
	available uint64 // bytes of memory
	cores     int

	features      features
	featuresKnown bool
	rings         rings
	queuesApart   bool // ethtool -L has rx and tx, and not combined
	spread        map[int]bool
	qdisc         string
	holder        *bpf.HeldError
	holderError   error
	buffers       buffers
	port          portUse
	firewall      firewall          // for the well-known port
	ownPorts      firewall          // for a port of a further adapter, if one would be used
	lanes         firewall          // for a bulk path
	ring          bool              // a tcx program may fill a ring
	forbidden     string            // why this process can never have the rights for AF_XDP; empty if it can
	napi          *xdp.NAPISettings // nil if unknown
	iommu         string            // type of the device's IOMMU group; "" if it has none
	keyError      error             // why processes have reset keys of their own
	peer          *peerAnswer       // nil if no peer was asked
	running       []Running         // processes with an adapter on the interface, if they can be inspected
}

// Examine examines an interface. It fails if there is no interface of this name or address, or if ctx is nil. Everything else is a
// finding.
func Examine(ctx context.Context, cfg Config) (Report, error) {
	if ctx == nil {
		return Report{}, fmt.Errorf("ndhealth: examine: no context: %w", nd.ErrInvalidParameter)
	}
	runtime.LockOSThread() // so that all facts are about one network namespace
	defer runtime.UnlockOSThread()
	cfg.Peer = cfg.Peer.Unmap().WithZone("") // its zone is the interface
	if cfg.UDPPort == 0 {
		cfg.UDPPort = nd.DefaultUDPPort
	}
	f := &facts{cfg: cfg}
	if err := f.find(); err != nil {
		return Report{}, err
	}
	f.gather(ctx)
	return f.report(), nil
}

// rights determines the rights of this process.
func (f *facts) rights() {
	f.missing = xdp.MissingCapabilities()
	if len(f.missing) == 0 {
		f.bpfError = bpf.Supported()
	}
	f.ring = bpf.RingSupported() == nil && !f.blind
	switch {
	case errors.Is(f.bpfError, bpf.ErrForbidden):
		f.forbidden, f.bpfError = f.bpfError.Error(), nil
	case len(f.missing) > 0 && bpf.InUserNamespace():
		f.forbidden = "this is a user namespace, and " + strings.Join(f.missing, ", ") + " would count for nothing outside of it"
	}
}

// find finds the interface and the address.
func (f *facts) find() (err error) {
	if f.nic, err = xdp.Inspect(f.cfg.Interface); err != nil {
		return err
	}
	f.carrier = carrierOf(&f.nic)
	addrs, err := addressesOf(&net.Interface{Index: f.nic.Index, Name: f.nic.Name}, linkLocal6(f.cfg.Peer))
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", f.nic.Name, err)
	}
	f.addrs = addrs
	switch {
	case f.cfg.Address.IsValid() && !slices.Contains(addrs, f.cfg.Address.Unmap()):
		return fmt.Errorf("interface %s has no address %s: see ip address show dev %s", f.nic.Name, f.cfg.Address, f.nic.Name)
	case f.cfg.Address.IsValid():
		f.addr = f.cfg.Address.Unmap()
	case len(addrs) > 0:
		f.addr = addrs[max(0, slices.IndexFunc(addrs, f.reaches))]
	}
	return nil
}

// reaches reports whether the peer, if any, can be asked from an address: both have the same family and are both link-local or both
// not.
func (f *facts) reaches(from netip.Addr) bool {
	peer := f.cfg.Peer
	return !peer.IsValid() || from.Is4() == peer.Is4() && linkLocal6(from) == linkLocal6(peer)
}

// gather collects all facts. A fact that cannot be read keeps its zero value, which means unknown.
func (f *facts) gather(ctx context.Context) {
	auto, err := plan.Prospect(&f.nic, plan.Config{Address: f.addr, UDPPort: f.cfg.UDPPort, Arena: defaultArena})
	f.auto, f.reason, f.denied, f.forgone, f.refused = nd.Datapath(auto.Datapath), auto.Reason, auto.Locked, auto.Refused, err
	if asked := plan.Datapath(f.cfg.Datapath); f.cfg.Datapath != nd.DatapathAuto {
		_, f.unopened = plan.Prospect(&f.nic, plan.Config{Address: f.addr, UDPPort: f.cfg.UDPPort, Arena: defaultArena, Datapath: asked})
		if !asked.OverSockets() {
			f.unsuited = plan.Unsuited(&f.nic, f.addr, asked)
		}
	}
	_, err = host.Links(&netlink.Handle{})
	f.blind = errors.Is(err, host.ErrBlind)
	f.kernel = release()
	f.multi = xdp.MultiBufferSupported()
	if err := xdp.Supported(); errors.Is(err, xdp.ErrPermission) {
		f.multi = true
	} else {
		f.xdpError = err
	}
	f.rights()
	f.lockFree, f.memlock = host.MayLock()
	f.available = memoryAvailable()
	f.cores = len(host.Processors())

	f.features, f.featuresKnown = featuresOf(f.nic.Index)
	f.rings, f.spread, f.qdisc = ringsOf(f.nic.Index), spreadOf(f.nic.Index), qdiscOf(f.nic.Index)
	f.holder, f.holderError = bpf.Holder(f.nic.Index, f.nic.Name)
	f.queuesApart = queuesApart(f.nic.Index)
	f.buffers = grantedBuffers()
	f.keyError = hostkey.Fault()
	if set, err := xdp.ReadNAPI(f.nic); err == nil { // this shows that /sys belongs to this namespace
		f.napi, f.iommu = &set, iommuOf(f.nic.Name)
	}
	f.running = inspect(f.addrs...)
	if f.addr.IsValid() {
		f.port = useOf(f.nic.Index, netip.AddrPortFrom(f.addr, f.cfg.UDPPort))
	}
	f.readFirewall(listRules(ctx))
	if f.cfg.Peer.IsValid() && f.addr.IsValid() {
		f.peer = &peerAnswer{}
	}
	if f.peer != nil && f.reaches(f.addr) {
		f.peer = askPeer(ctx, f.addr, f.cfg.UDPPort, f.cfg.Peer, !f.port.taken)
	}
}

// overXDP reports whether the datapath is to use AF_XDP.
func (f *facts) overXDP() bool {
	if f.cfg.Datapath == nd.DatapathAuto {
		return f.refused != nil || !f.auto.OverSockets()
	}
	return !f.cfg.Datapath.OverSockets()
}

// wants reports whether the datapath is to use AF_XDP, or whether auto does not use it because of the given lack.
func (f *facts) wants(lacking error) bool {
	return f.overXDP() || f.cfg.Datapath == nd.DatapathAuto && errors.Is(f.forgone, lacking)
}

// byTCX reports whether the datapath is to receive by a tcx program and send by AF_XDP.
func (f *facts) byTCX() bool {
	return f.cfg.Datapath == nd.DatapathTCX || f.cfg.Datapath == nd.DatapathAuto && f.refused == nil && f.auto == nd.DatapathTCX
}

func (f *facts) report() Report {
	r := Report{Interface: f.nic.Name, Datapath: f.cfg.Datapath.String(), Reason: "asked for"}
	if f.cfg.Datapath == nd.DatapathAuto {
		r.Datapath, r.Reason = f.auto.String(), f.reason
		if f.refused != nil {
			r.Datapath, r.Reason = "none", f.refused.Error()
		}
	}
	if f.addr.IsValid() {
		r.Address = f.addr.String()
	}
	for _, check := range checks {
		finding, looked := check.judge(f)
		if looked {
			finding.Check = check.name
			r.Findings = append(r.Findings, finding)
		}
	}
	return r
}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
