package nd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Limits of every adapter (ND specification section 4).
const (
	maxRegistration = verbs.MaxRegistration
	maxQueueDepth   = verbs.MaxQueueDepth
	maxSharedDepth  = verbs.MaxSharedDepth
	maxCQDepth      = verbs.MaxCQDepth
	maxInline       = verbs.MaxInline
	maxReadLimit    = verbs.MaxReadLimit
	maxFixedWindow  = verbs.MaxFixedWindow
)

// Datapath is a way to send and receive packets.
type Datapath uint8

// All datapaths use the same wire format, so two peers may use different datapaths.
//
// DatapathAuto chooses by driver and interface:
//
//   - DatapathTCX on veth.
//   - DatapathGeneric where packets arrive on interfaces beneath (bond, team, bridge, a virtual function), because native mode loses them
//     there.
//   - DatapathRing where another adapter or program has the interface's AF_XDP, and on ipvlan interfaces in L3 mode.
//   - DatapathUDP if the process lacks the privileges for the rest, if the interface is not Ethernet, or if no packet ever arrives on it
//     (loopback, dummy, vrf).
const (
	DatapathAuto    Datapath = 0
	DatapathGeneric Datapath = 1
	DatapathNative  Datapath = 2
	DatapathUDP     Datapath = 3 // plain sockets: slower, but every process may use them
	DatapathRing    Datapath = 4 // plain sockets send and a BPF ring receives small packets; many processes can share an interface (Linux 6.6)
	DatapathTCX     Datapath = 5 // AF_XDP sends and a BPF ring receives: faster than XDP on veth, and free for other traffic (Linux 6.6)
)

// String returns the name of the datapath in flags: auto, generic, native, udp, ring, tcx.
func (d Datapath) String() string { return plan.Datapath(d).String() }

// OverSockets reports whether packets are sent by plain sockets: true for DatapathUDP and DatapathRing.
func (d Datapath) OverSockets() bool { return plan.Datapath(d).OverSockets() }

// MarshalText is String, for JSON and flags.
func (d Datapath) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDatapath.
func (d *Datapath) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDatapath(string(text))
	return err
}

// ParseDatapath is the inverse of String.
func ParseDatapath(s string) (Datapath, error) {
	r, err := plan.Parse(s)
	return Datapath(r), err
}

// BulkLane controls whether an adapter with an AF_XDP datapath also has a bulk path. The bulk path is a second UDP port on an
// ordinary socket. It carries the packets of long messages in GSO batches of up to 64 KiB.
//
// An adapter on plain sockets uses its only port as the bulk path for peers with an AF_XDP datapath. Two adapters on plain sockets send GSO
// batches to each other without it. A peer without a bulk path gets all its packets by AF_XDP.
type BulkLane uint8

// BulkAuto opens a bulk path if the interface supports GSO for UDP (ethtool -k: tx-udp-segmentation) and AF_XDP copies there. A
// connection uses it for 8 KiB or more of successive full packets.
const (
	BulkAuto BulkLane = 0
	BulkOff  BulkLane = 1
	BulkOnly BulkLane = 2 // every message, wherever there is a bulk path
)

// String returns the name of the choice in flags: auto, off, only.
func (b BulkLane) String() string { return plan.Bulk(b).String() }

// MarshalText is String, for JSON and flags.
func (b BulkLane) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText is ParseBulkLane.
func (b *BulkLane) UnmarshalText(text []byte) (err error) {
	*b, err = ParseBulkLane(string(text))
	return err
}

// ParseBulkLane is the inverse of String.
func ParseBulkLane(s string) (BulkLane, error) {
	b, err := plan.ParseBulk(s)
	return BulkLane(b), err
}

// DefaultUDPPort is the well-known UDP port, unless AdapterConfig.UDPPort says otherwise.
const DefaultUDPPort = 14791

// AdapterConfig describes the adapter to open. Only Address is required.
type AdapterConfig struct {
	// Address is a local address. It selects the interface that has it. If several interfaces have the same link-local address, the zone
	// names the interface, and their adapters need different UDP ports.
	Address netip.Addr
	// UDPPort is the well-known UDP port that connection requests go to. 0 is DefaultUDPPort, 14791. Both peers must use the same value.
	// The first adapter of an address receives on this port. Further adapters of the address, of this process or of others, receive on UDP
	// ports of their own and share its ND ports. UDPPort is unrelated to ND port numbers.
	UDPPort  uint16
	Datapath Datapath
	// Broker is the path of the socket of a broker (cmd/ndbroker), which opens AF_XDP for this process. The process then needs no
	// privileges. If the broker cannot serve it, opening fails; it never falls back to plain sockets. When the broker ends, the adapter
	// ends as if its interface had been removed.
	//
	// The broker grants a BPF ring instead of AF_XDP with DatapathRing, and with DatapathAuto if another client has AF_XDP or the broker
	// leases only rings. An adapter with a ring goes on over plain sockets when the broker ends.
	//
	// If Broker is empty, the process opens the datapath itself. If it lacks the privileges, DatapathAuto asks the broker at
	// /run/ndbroker/<interface>, for at most one second. docs/OPERATING.md#brokers-and-containers explains it.
	Broker string
	// Bulk controls whether the adapter has a bulk path. The bulk path needs no privileges, even with a Broker, but it needs UDP
	// port numbers of its own. If a firewall admits only UDPPort, each connection that sends much loses three probes before it does
	// without the bulk path.
	Bulk BulkLane
	// Spin bounds how long CompletionQueue.Notify polls for packets before it sleeps. 0 is 500 µs; a negative value disables polling.
	// Notify polls for a shorter time, or not at all, if recent polling did not avoid a sleep. It ends polling if another thread got the
	// processor, and lets goroutines run that wait for one. Polling occupies only the processor of the calling goroutine: most of it, if a
	// packet comes at least each 400 µs. Stats counts how often Notify polled and how often polling avoided a sleep.
	Spin time.Duration
	// ArenaBytes is the size of the memory that AllocateMemory hands out and that can be sent without a copy. It is pinned while the
	// adapter is open. 0 is 4 MiB; a negative value is none.
	ArenaBytes int
	// DataCenter means that all routers and switches on the path mark packets as in data centers, from a queue of a few dozen
	// packets on. Connections then reduce their rate by half of the share of marked packets (DCTCP, RFC 8257). Without it, a mark
	// counts as a loss (RFC 3168, RFC 8511), which is fair to other traffic. Use it only if one operator runs the whole network.
	DataCenter bool
	// NoECN keeps routers from marking the packets of both ends of a connection (RFC 3168). A path that marks every packet, or that
	// loses ECN-capable packets, is detected in any case; NoECN avoids the delay until then.
	NoECN bool
	// FixedWindow turns congestion control off: each connection keeps that many packets in flight, 1 to 65536, whatever is lost or marked.
	// 0 is congestion control. Use it to measure what congestion control costs, never on a network that others use.
	FixedWindow int
	// RequireTLS refuses connections that are not encrypted: Connect without Connector.UseTLS, and Listen without Listener.UseTLS or with
	// TLSAllowed, fail with ErrInvalidParameter.
	RequireTLS bool

	// PeerTimeout is how long the peer of an established connection may acknowledge nothing of the data in flight before the connection is
	// lost, like TCP_USER_TIMEOUT for TCP. 0 is 5 s. It does not affect connecting.
	//
	// A kernel acknowledges TCP data even while the receiving process is stopped; here only the process itself acknowledges. If connections
	// must survive a process that is stopped, by a debugger or with its machine, set PeerTimeout at both ends.
	PeerTimeout time.Duration

	// FlightLog receives a readable record of the last transport events each time a connection is lost, at most four times a second for
	// each receive queue. A goroutine of the adapter makes one Write call for each record. If the adapter ends without being closed,
	// FlightLog receives a line with the reason. docs/OPERATING.md#captures explains the records.
	FlightLog io.Writer

	// Inspect is the path of the socket through which this user and root inspect the adapter and capture its packets (ndstat, ndinfo,
	// package ndinspect). Empty selects a path named after the process in ndinspect.Directory; if the socket cannot be made there, the
	// adapter works without. InspectOff makes no socket.
	Inspect string

	engine provider.Config // shorter time-outs for tests; the zero value is right otherwise
}

// Adapter is a network interface opened for ND. It belongs to the network namespace of the thread that opened it. All
// methods may be called from any goroutine.
type Adapter struct {
	verbs   *verbs.Adapter
	udpPort uint16 // 0 for a link made by a test
	flags   AdapterFlags
	inspection
}

// OpenAdapter opens the interface that has cfg.Address. It attaches the XDP program that steers ND traffic, opens an AF_XDP socket, and
// starts the goroutine that makes progress in the background. All other traffic of the interface still goes to the kernel.
//
// It needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF. DatapathRing does not need CAP_NET_RAW. DatapathUDP and AdapterConfig.Broker need no
// capability. DatapathAuto falls back to a datapath that the process may open.
//
// Errors: ErrInvalidParameter for an unknown datapath or a FixedWindow out of range, ErrInvalidAddress if no interface has the address,
// ErrNoMemory if the machine has no memory left to pin, ErrInsufficientResources if no file descriptors are left or cfg.Inspect cannot be
// made, ErrDeviceNotReady otherwise. Each has the cause.
func OpenAdapter(cfg AdapterConfig) (*Adapter, error) {
	if cfg.UDPPort == 0 {
		cfg.UDPPort = DefaultUDPPort
	}
	refuse := func(s Status, err error) (*Adapter, error) {
		return nil, &Error{Op: "open adapter", Local: netip.AddrPortFrom(cfg.Address, cfg.UDPPort), Status: s, Err: err}
	}
	if _, err := ParseDatapath(cfg.Datapath.String()); err != nil {
		return refuse(ErrInvalidParameter, err)
	}
	if _, err := ParseBulkLane(cfg.Bulk.String()); err != nil {
		return refuse(ErrInvalidParameter, err)
	}
	if cfg.FixedWindow < 0 || cfg.FixedWindow > maxFixedWindow {
		return refuse(ErrInvalidParameter, fmt.Errorf("FixedWindow is %d, want 1 to %d packets, or 0", cfg.FixedWindow, maxFixedWindow))
	}
	if cfg.FixedWindow > 0 {
		cfg.engine.Control, cfg.engine.FixedWindow = provider.ControlFixed, cfg.FixedWindow
	}
	cfg.engine.DataCenter, cfg.engine.NoECN = cfg.DataCenter, cfg.NoECN
	if cfg.PeerTimeout > 0 {
		cfg.engine.Stalled = cfg.PeerTimeout
	}
	write := func(context.Context, func() error) {}
	if cfg.FlightLog != nil {
		cfg.engine.OnLost, write = verbs.LogFlights(cfg.FlightLog)
	}
	h, o, cause := verbs.Open(verbs.Config{
		Address: cfg.Address, UDPPort: cfg.UDPPort, Datapath: plan.Datapath(cfg.Datapath), Arena: cfg.ArenaBytes,
		Broker: cfg.Broker, Spin: cfg.Spin, Bulk: plan.Bulk(cfg.Bulk),
	}, cfg.engine)
	if o != provider.OutcomeSuccess {
		return refuse(statusTable[o], cause)
	}
	if cfg.FlightLog != nil {
		go write(h.Life, h.Cause)
	}
	h.RequireTLS = cfg.RequireTLS
	a := &Adapter{verbs: h, udpPort: cfg.UDPPort, flags: defaultFlags}
	if h.ReachesItself() {
		a.flags |= AdapterLoopbackConnections
	}
	if err := a.inspected(cfg.Inspect); err != nil {
		return refuse(ErrInsufficientResources, errors.Join(err, h.Close()))
	}
	return a, nil
}

func (a *Adapter) closed() bool { return a.verbs.Closed() }

// removed returns the error of a call on an adapter that has ended.
func (a *Adapter) removed(op string) error {
	return &Error{Op: op, Status: ErrDeviceRemoved, Err: a.verbs.Cause()}
}

// wrong returns the error of a call with a wrong argument, given by its position in the SPI's list. If the adapter has ended, the error says
// that instead.
func (a *Adapter) wrong(op string, argument int) error {
	if a.closed() {
		return a.removed(op)
	}
	return &Error{Op: op, Status: ErrInvalidParameterN(argument)}
}

// Removed says why the adapter ended without being closed: its interface or address was removed, its queues changed, or the broker ended.
// Later calls on the adapter fail with ErrDeviceRemoved and this cause. Removed returns nil while the adapter works, and if Close came
// first.
func (a *Adapter) Removed() error { return a.verbs.Cause() }

// Info describes an adapter (ND2_ADAPTER_INFO). Sizes are in bytes, depths in requests.
type Info struct {
	VendorID                   uint16       `json:"vendor_id"`
	DeviceID                   uint16       `json:"device_id"`
	AdapterID                  uint64       `json:"adapter_id"`
	MaxRegistrationSize        uint64       `json:"max_registration_size"`
	MaxWindowSize              uint64       `json:"max_window_size"`
	MaxInitiatorSGE            int          `json:"max_initiator_sge"`
	MaxReceiveSGE              int          `json:"max_receive_sge"`
	MaxReadSGE                 int          `json:"max_read_sge"`
	MaxTransferLength          uint32       `json:"max_transfer_length"`
	MaxInlineDataSize          int          `json:"max_inline_data_size"`
	MaxInboundReadLimit        uint32       `json:"max_inbound_read_limit"`
	MaxOutboundReadLimit       uint32       `json:"max_outbound_read_limit"`
	MaxReceiveQueueDepth       int          `json:"max_receive_queue_depth"`
	MaxInitiatorQueueDepth     int          `json:"max_initiator_queue_depth"`
	MaxSharedReceiveQueueDepth int          `json:"max_shared_receive_queue_depth"`
	MaxCompletionQueueDepth    int          `json:"max_completion_queue_depth"`
	InlineRequestThreshold     int          `json:"inline_request_threshold"`
	LargeRequestThreshold      int          `json:"large_request_threshold"`
	MaxCallerData              int          `json:"max_caller_data"`
	MaxCalleeData              int          `json:"max_callee_data"`
	Flags                      AdapterFlags `json:"flags"`
}

// AdapterFlags are capabilities of an adapter (ND_ADAPTER_FLAG).
type AdapterFlags uint32

// Values of AdapterFlags.
const (
	AdapterInOrderDMA          AdapterFlags = 0x1     // the last byte of a message becomes visible last
	AdapterCQModeration        AdapterFlags = 0x4     // CompletionQueue.Moderate works
	AdapterCQResize            AdapterFlags = 0x100   // CompletionQueue.Resize works
	AdapterLoopbackConnections AdapterFlags = 0x10000 // the adapter can connect to its own address: not on a lease of a broker
)

const defaultFlags = AdapterInOrderDMA | AdapterCQModeration | AdapterCQResize

// Query returns the adapter's limits.
//
// Errors: ErrDeviceRemoved.
func (a *Adapter) Query() (Info, error) {
	if a.closed() {
		return Info{}, a.removed("query")
	}
	return infoOf(a.verbs.Addr, a.flags), nil
}

func infoOf(addr netip.Addr, flags AdapterFlags) Info {
	return Info{
		AdapterID: adapterID(addr), MaxRegistrationSize: maxRegistration, MaxWindowSize: maxRegistration,
		MaxInitiatorSGE: provider.MaxSGE, MaxReceiveSGE: provider.MaxSGE, MaxReadSGE: provider.MaxSGE,
		MaxTransferLength: provider.MaxTransfer, MaxInlineDataSize: maxInline, InlineRequestThreshold: maxInline,
		MaxInboundReadLimit: maxReadLimit, MaxOutboundReadLimit: maxReadLimit,
		MaxReceiveQueueDepth: maxQueueDepth, MaxInitiatorQueueDepth: maxQueueDepth, MaxCompletionQueueDepth: maxCQDepth,
		MaxSharedReceiveQueueDepth: maxSharedDepth,
		LargeRequestThreshold:      verbs.LargeRequest, MaxCallerData: provider.MaxPrivateData, MaxCalleeData: provider.MaxPrivateData,
		Flags: flags,
	}
}

// adapterID returns the id of the adapter with an address: its FNV-1a hash, so that it stays the same as long as the address does.
func adapterID(addr netip.Addr) uint64 {
	id := uint64(14695981039346656037)
	for _, b := range provider.EndpointFrom(netip.AddrPortFrom(addr.Unmap(), 0)).IP {
		id = (id ^ uint64(b)) * 1099511628211
	}
	return id
}

// QueryAddressList returns the addresses of this adapter: only the address it was opened with.
func (a *Adapter) QueryAddressList() []netip.Addr { return []netip.Addr{a.verbs.Addr} }

// DatapathInfo describes an adapter's datapath, and why it was chosen.
type DatapathInfo struct {
	Interface, Driver string
	MTU, Queues       int
	Datapath          Datapath
	Reason            string
	ZeroCopy          bool   // as the kernel reports for the sockets
	Copying           string // why AF_XDP copies packets; empty with ZeroCopy, and over plain sockets
	// OwnResetKey is the reason why the adapter has a reset key of its own and does not use the host's key; it is empty if it uses
	// the host's key. With the host's key, peers of a process that was killed and restarted lose their connections at once;
	// otherwise they do so after seconds of silence (PROTOCOL §7.4).
	OwnResetKey string
	// Apart is the reason why plain sockets send and receive each packet by itself: the kernel lacks UDP_SEGMENT or UDP_GRO. It is
	// empty if GSO works. If the kernel refuses a GSO batch to one peer, packets to this peer leave one by one for a while; other
	// peers are not affected.
	Apart string
	// BulkPort is the UDP port of the bulk path. It is 0 if there is none beside the adapter's only port. NoBulk is then the
	// reason, with a command that helps if there is one. NoBulk is also the reason why an existing bulk path has stopped carrying
	// packets.
	BulkPort uint16
	NoBulk   string
}

// Datapath returns the adapter's datapath.
func (a *Adapter) Datapath() DatapathInfo {
	if a.verbs.Device == nil {
		return DatapathInfo{Reason: "no device"}
	}
	i := a.verbs.Device.Info()
	own := ""
	if a.verbs.KeyFault != nil {
		own = a.verbs.KeyFault.Error()
	}
	return DatapathInfo{
		OwnResetKey: own,
		Interface:   i.Interface, Driver: i.Driver, MTU: i.MTU, Queues: i.Queues, Datapath: Datapath(i.Datapath), Reason: i.Reason,
		Apart:    i.Alone,
		BulkPort: i.BulkPort, NoBulk: i.NoBulk,
		ZeroCopy: i.Socket.ZeroCopy, Copying: i.Copying,
	}
}

// Close ends every connection, finishes every pending call, detaches the XDP program and closes the socket. Objects of the adapter can
// still be closed afterwards; every other call on them fails with ErrDeviceRemoved. Closing twice is harmless.
func (a *Adapter) Close() error { return errors.Join(a.closeInspection(), a.verbs.Close()) }
