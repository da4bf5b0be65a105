package ndhealth

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/genetlink"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
	"github.com/ndxdp/ndxdp/xdp"
)

// Machine is a set of facts about a machine, for bug reports.
type Machine struct {
	Kernel              string      `json:"kernel"` // release and version
	Architecture        string      `json:"architecture"`
	Processors          int         `json:"processors"` // available to this process
	MemoryAvailable     uint64      `json:"memory_available_bytes"`
	LockedMemoryLimit   uint64      `json:"locked_memory_limit_bytes"`
	LockedMemoryFree    bool        `json:"locked_memory_unlimited"` // the limit does not apply to this process
	MissingCapabilities []string    `json:"missing_capabilities"`
	MultiBuffer         bool        `json:"af_xdp_multi_buffer"`
	Namespace           uint64      `json:"network_namespace"`
	Interfaces          []Interface `json:"interfaces"`
}

// Interface is a set of facts about an interface from kernel and driver.
type Interface struct {
	Name            string         `json:"name"`
	Index           int            `json:"index"`
	Kind            string         `json:"kind"` // for example device, veth, bond, vlan
	State           string         `json:"state"`
	Flags           string         `json:"flags"`
	Carrier         bool           `json:"carrier"`
	Master          int            `json:"master,omitempty"` // index
	MTU             int            `json:"mtu"`
	Addresses       []netip.Prefix `json:"addresses"`
	Driver          string         `json:"driver"`
	DriverVersion   string         `json:"driver_version,omitempty"`
	Firmware        string         `json:"firmware,omitempty"`
	Bus             string         `json:"bus,omitempty"`
	RxQueues        int            `json:"rx_queues"`
	TxQueues        int            `json:"tx_queues"`
	RxRing          int            `json:"rx_ring,omitempty"` // descriptors
	TxRing          int            `json:"tx_ring,omitempty"`
	Qdisc           string         `json:"qdisc,omitempty"`
	XDPProgram      string         `json:"xdp_program,omitempty"` // attached program
	XDPFeatures     uint64         `json:"xdp_features"`          // enum netdev_xdp_act
	Offloads        []string       `json:"offloads"`              // active offloads
	ReceivedPackets uint64         `json:"rx_packets"`
	SentPackets     uint64         `json:"tx_packets"`
	ReceiveDropped  uint64         `json:"rx_dropped"`
	SendDropped     uint64         `json:"tx_dropped"`
	ReceiveErrors   uint64         `json:"rx_errors"`
	SendErrors      uint64         `json:"tx_errors"`
}

// Inventory collects facts about the machine and all interfaces of the calling thread's network namespace. Unknown facts are left
// out. It fails if interfaces cannot be listed.
func Inventory() (Machine, error) {
	runtime.LockOSThread() // so that all facts are about one network namespace
	defer runtime.UnlockOSThread()
	free, limit := host.MayLock()
	m := Machine{
		Kernel: release(), Architecture: runtime.GOARCH, Processors: len(host.Processors()), MemoryAvailable: memoryAvailable(),
		LockedMemoryLimit: limit, LockedMemoryFree: free, MissingCapabilities: xdp.MissingCapabilities(), MultiBuffer: xdp.MultiBufferSupported(),
		Namespace: ndinspect.Namespace(), Interfaces: []Interface{},
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel += " " + unix.ByteSliceToString(u.Version[:])
	}
	links, err := host.Links(&netlink.Handle{})
	if err != nil {
		return m, fmt.Errorf("ndhealth: %w", err)
	}
	for _, link := range links {
		m.Interfaces = append(m.Interfaces, describe(link))
	}
	return m, nil
}

// Down lists the interfaces of the calling thread's network namespace that are down and so have no adapter. It fails if interfaces
// cannot be listed.
func Down() ([]Interface, error) {
	runtime.LockOSThread() // so that all facts are about one network namespace
	defer runtime.UnlockOSThread()
	links, err := host.Links(&netlink.Handle{})
	if err != nil {
		return nil, fmt.Errorf("ndhealth: %w", err)
	}
	var down []Interface
	for _, link := range links {
		if link.Attrs().RawFlags&unix.IFF_UP == 0 {
			down = append(down, describe(link))
		}
	}
	return down, nil
}

func describe(link netlink.Link) Interface {
	a := link.Attrs()
	i := Interface{
		Name: a.Name, Index: a.Index, Kind: link.Type(), State: a.OperState.String(), Flags: a.Flags.String(), MTU: a.MTU, Master: a.MasterIndex,
		Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, Qdisc: qdiscOf(a.Index), Offloads: genetlink.Offloads(a.Index), Addresses: []netip.Prefix{},
	}
	if nic, err := xdp.Inspect(a.Name); err == nil {
		i.RxQueues, i.TxQueues = nic.RxQueues, nic.TxQueues
	}
	i.drivenBy()
	if addrs, err := (&net.Interface{Index: a.Index}).Addrs(); err == nil {
		for _, addr := range addrs {
			if p, err := netip.ParsePrefix(addr.String()); err == nil {
				i.Addresses = append(i.Addresses, p)
			}
		}
	}
	r := ringsOf(a.Index)
	i.RxRing, i.TxRing = r.rx, r.tx
	f, _ := featuresOf(a.Index) // none if unknown
	i.XDPFeatures = uint64(f)
	if h, err := bpf.Holder(a.Index, a.Name); err == nil && h != nil {
		i.XDPProgram = fmt.Sprintf("%d %q, %s mode", h.ProgramID, h.ProgramName, h.HolderMode)
	}
	if s := a.Statistics; s != nil {
		i.ReceivedPackets, i.SentPackets = s.RxPackets, s.TxPackets
		i.ReceiveDropped, i.SendDropped, i.ReceiveErrors, i.SendErrors = s.RxDropped, s.TxDropped, s.RxErrors, s.TxErrors
	}
	return i
}

// drivenBy returns the driver's name and versions, which virtual interfaces often lack.
func (i *Interface) drivenBy() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if d, err := unix.IoctlGetEthtoolDrvinfo(fd, i.Name); err == nil {
		i.Driver, i.DriverVersion = unix.ByteSliceToString(d.Driver[:]), unix.ByteSliceToString(d.Version[:])
		i.Firmware, i.Bus = unix.ByteSliceToString(d.Fw_version[:]), unix.ByteSliceToString(d.Bus_info[:])
	}
}
