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
	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/hostkey"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/xdp"
)

// Config says what to examine.
type Config struct {
	Interface string
	Address   netip.Addr  // one of the interface's; when not valid its first one, of those from which Peer can be asked if there are any
	Datapath  nd.Datapath // that programs will ask for
	UDPPort   uint16      // as in nd.AdapterConfig
	// Peer is asked for a sign of an adapter when it is valid. That takes up to askPatience, and needs UDPPort to be free.
	Peer netip.Addr
}

// facts is what was looked at.
type facts struct {
	cfg     Config
	nic     xdp.NIC
	carrier bool // something is at the other end
	addr    netip.Addr
	addrs   []netip.Addr // all of the interface

	auto      nd.Datapath // what nd.DatapathAuto takes
	reason    string
	refused   error // what keeps it from taking anything
	forgone   error // why it does without AF_XDP; nil when it does not
	unopened  error // why the datapath that was asked for cannot be opened; nil when it can, and for nd.DatapathAuto
	unsuited  error // why the datapath that was asked for would lose packets on the interface
	blind     bool  // the kernel does not tell this process of interfaces: netlink sockets are refused
	kernel    string
	missing   []string // capabilities
	xdpError  error    // of the kernel; nil when rights are missing
	bpfError  error
	multi     bool // the kernel has AF_XDP multi-buffer, or does not tell this process
	memlock   uint64
	lockFree  bool   // CAP_IPC_LOCK: the limit does not hold
	denied    uint64 // bytes that auto would have pinned for AF_XDP; 0 when it may, or does not want to
	available uint64 // bytes of memory
	cores     int

	features      features
	featuresKnown bool
	rings         rings
	queuesApart   bool // ethtool -L takes rx and tx, and not combined
	spread        map[int]bool
	qdisc         string
	holder        *bpf.HeldError
	holderError   error
	buffers       buffers
	port          portUse
	firewall      firewall          // of the well-known port
	ownPorts      firewall          // of one that a further adapter may have, where one would
	lanes         firewall          // of a bulk lane
	ring          bool              // a program at tcx may fill a ring
	forbidden     string            // why this process cannot have the rights that AF_XDP needs, whatever it is given; empty when it can
	napi          *xdp.NAPISettings // nil when it cannot be seen
	iommu         string            // type of the device's IOMMU group, "" without one
	keyError      error             // why processes have reset keys of their own
	peer          *peerAnswer       // nil when nobody was asked
	running       []Running         // processes with an adapter on the interface, as far as they let others look
}

// Examine examines an interface. The error says that there is none of that name or address, or that ctx is nil; everything else is a
// finding.
func Examine(ctx context.Context, cfg Config) (Report, error) {
	if ctx == nil {
		return Report{}, fmt.Errorf("ndhealth: examine: no context: %w", nd.ErrInvalidParameter)
	}
	runtime.LockOSThread() // facts of one network namespace
	defer runtime.UnlockOSThread()
	cfg.Peer = cfg.Peer.Unmap().WithZone("") // it is asked on the interface
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

// rights finds out what this process may do.
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

// find finds interface and address.
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

// reaches reports whether the peer, if there is one, can be asked from an address: both are of one family, and link-local or not.
func (f *facts) reaches(from netip.Addr) bool {
	peer := f.cfg.Peer
	return !peer.IsValid() || from.Is4() == peer.Is4() && linkLocal6(from) == linkLocal6(peer)
}

// gather looks at everything. What cannot be looked at keeps a zero value, which judges take for unknown.
func (f *facts) gather(ctx context.Context) {
	auto, err := datapath.Prospect(&f.nic, datapath.Config{Address: f.addr, UDPPort: f.cfg.UDPPort, Arena: defaultArena})
	f.auto, f.reason, f.denied, f.forgone, f.refused = nd.Datapath(auto.Rung), auto.Reason, auto.Locked, auto.Refused, err
	if asked := datapath.Rung(f.cfg.Datapath); f.cfg.Datapath != nd.DatapathAuto {
		_, f.unopened = datapath.Prospect(&f.nic, datapath.Config{Address: f.addr, UDPPort: f.cfg.UDPPort, Arena: defaultArena, Rung: asked})
		if !asked.OverSockets() {
			f.unsuited = datapath.Unsuited(&f.nic, f.addr, asked)
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
	if set, err := xdp.ReadNAPI(f.nic); err == nil { // and so /sys is that of this namespace
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

// overXDP reports whether packets are meant to move by AF_XDP.
func (f *facts) overXDP() bool {
	if f.cfg.Datapath == nd.DatapathAuto {
		return f.refused != nil || !f.auto.OverSockets()
	}
	return !f.cfg.Datapath.OverSockets()
}

// wants reports whether packets are meant to move by AF_XDP, or that auto does without it because of lacking.
func (f *facts) wants(lacking error) bool {
	return f.overXDP() || f.cfg.Datapath == nd.DatapathAuto && errors.Is(f.forgone, lacking)
}

// byTCX reports whether packets are meant to arrive by a program at tcx, and leave by AF_XDP.
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
