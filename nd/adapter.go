package nd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// The limits of every adapter (ND specification section 4).
const (
	maxRegistration = verbs.MaxRegistration
	maxQueueDepth   = verbs.MaxQueueDepth
	maxSharedDepth  = verbs.MaxSharedDepth
	maxCQDepth      = verbs.MaxCQDepth
	maxInline       = verbs.MaxInline
	maxReadLimit    = verbs.MaxReadLimit
	maxFixedWindow  = 1 << 16 // packets
)

// Datapath chooses how packets move.
type Datapath uint8

// The datapaths. DatapathAuto chooses by driver, from measurements. It takes DatapathTCX on veth, DatapathGeneric where packets arrive on interfaces beneath
// (bond, team, bridge, a virtual function), because native mode loses them there, DatapathRing beside another adapter or program that has the interface's AF_XDP
// and on ipvlan interfaces in L3 mode, and DatapathUDP when this process lacks the privileges that the others need, the interface is no Ethernet, or no packet
// ever arrives on it (loopback, dummy, vrf). All speak one wire format: peers need not match.
const (
	DatapathAuto    = Datapath(datapath.RungAuto)
	DatapathGeneric = Datapath(datapath.RungGeneric)
	DatapathNative  = Datapath(datapath.RungNative)
	DatapathUDP     = Datapath(datapath.RungUDP)  // plain sockets: slower, and for everybody
	DatapathRing    = Datapath(datapath.RungRing) // plain sockets that send, and a ring that small packets arrive in: for many processes of an interface (Linux 6.6)
	DatapathTCX     = Datapath(datapath.RungTCX)  // AF_XDP that sends, and such a ring: on veth faster than XDP, and without cost for others' traffic (Linux 6.6)
)

// String names the datapath as flags do: auto, generic, native, udp, ring, tcx.
func (d Datapath) String() string { return datapath.Rung(d).String() }

// OverSockets says that packets leave by plain sockets: with DatapathUDP and DatapathRing.
func (d Datapath) OverSockets() bool { return datapath.Rung(d).OverSockets() }

// MarshalText is String, for JSON and flags.
func (d Datapath) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDatapath.
func (d *Datapath) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDatapath(string(text))
	return err
}

// ParseDatapath is the inverse of String.
func ParseDatapath(s string) (Datapath, error) {
	r, err := datapath.ParseRung(s)
	return Datapath(r), err
}

// BulkLane says whether an adapter with an AF_XDP datapath has a bulk lane as well: a second UDP port, at an ordinary socket, for the packets of long
// messages, which the kernel then carries in runs of up to 64 KiB. Plain sockets have theirs at their only port, for peers with an AF_XDP datapath; to each other they send runs
// without. Peers that have none get nothing by it.
type BulkLane uint8

// The choices. With BulkAuto there is a lane where the interface takes runs of datagrams (ethtool -k: tx-udp-segmentation). A connection that sends much compares it with
// AF_XDP for some 50 ms, and again after a second to a minute, and sends by what moves more.
const (
	BulkAuto = BulkLane(datapath.BulkAuto)
	BulkOff  = BulkLane(datapath.BulkOff)
	BulkOnly = BulkLane(datapath.BulkOnly) // wherever it can be had, for whatever it carries
)

// String names the choice as flags do: auto, off, only.
func (b BulkLane) String() string { return datapath.Bulk(b).String() }

// MarshalText is String, for JSON and flags.
func (b BulkLane) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText is ParseBulkLane.
func (b *BulkLane) UnmarshalText(text []byte) (err error) {
	*b, err = ParseBulkLane(string(text))
	return err
}

// ParseBulkLane is the inverse of String.
func ParseBulkLane(s string) (BulkLane, error) {
	b, err := datapath.ParseBulk(s)
	return BulkLane(b), err
}

// DefaultUDPPort carries ND traffic unless AdapterConfig asks for another port.
const DefaultUDPPort = verbs.DefaultUDPPort

// AdapterConfig says which adapter to open.
type AdapterConfig struct {
	// Address is a local address; the adapter is the interface that has it. The zone of a link-local address names the interface where several
	// have it: adapters of such an address on different interfaces need different UDP ports.
	Address netip.Addr
	// UDPPort is the well-known port, which requests to connect go to; 0 is DefaultUDPPort, 14791. Peers must use the same one. The first
	// adapter of an address receives on it, further ones, of this process or of others, on UDP ports of their own, by a broker, with a ring, or over plain sockets; they
	// share its ND ports. ND port numbers have nothing to do with it.
	UDPPort  uint16
	Datapath Datapath
	// Broker is the path of the socket of a broker (cmd/ndbroker) that opens AF_XDP for this process, which then needs no privileges
	// and never takes plain sockets instead. The adapter ends like one whose interface is removed when the broker ends. With DatapathAuto, while another client
	// has AF_XDP or where the broker leases rings only, and with DatapathRing the broker fills a ring: such an adapter goes on over plain sockets when the broker ends. Empty: open
	// it here; where that cannot be, auto asks the broker at /run/ndbroker/<interface>, for a second at the most. docs/CONTAINERS.md explains it.
	Broker string
	// BusyPoll has a program that polls for results run the driver's receive loop itself, which saves interrupts and costs a system
	// call for each look that finds nothing. It takes native XDP, Linux 6.14 and a driver that tells which loop serves a queue (veth does
	// not); elsewhere nothing changes, and DatapathInfo says so. While the adapter is open the interface has other NAPI settings
	// (napi_defer_hard_irqs, gro_flush_timeout), so that all its traffic may be up to 0.4 ms late when nobody polls. They are restored by Close;
	// after a process was killed, by the next adapter with BusyPoll. Writing them takes root, and CAP_SYS_ADMIN where /sys shows another
	// network namespace; opening fails without. With a Broker it is the broker's to decide (ndbroker --busy-poll).
	BusyPoll bool
	// Bulk says whether the adapter has a bulk lane. It needs no privileges, also with a Broker, and UDP port numbers of its own: a firewall that lets
	// only UDPPort through costs each connection that sends much three packets.
	Bulk BulkLane
	// Spin bounds how long CompletionQueue.Notify looks for packets before the processor goes to somebody else: 0 is 100 µs, a negative one never.
	// Within the bound it looks as long as that has spared sleeps lately, and not at all where others want the processor. Only the calling goroutine's
	// processor looks, and Stats shows how often and whether it paid.
	Spin time.Duration
	// ArenaBytes is how much memory AllocateMemory can hand out that is sent without a copy. It is pinned while the adapter
	// is open. 0 is 4 MiB, negative none.
	ArenaBytes int
	// ImmediatePlacement writes bytes to where they belong as soon as they arrive, also when others that were sent before them
	// are lost or late. It saves receive memory on paths that reorder, and clears AdapterInOrderDMA: a program may not poll the last byte
	// of a message then, but has to wait for results, which come in order as always.
	ImmediatePlacement bool
	// DataCenter says that all routers and switches on the way mark packets as those of data centers do: from a queue of a few dozen packets on. Connections
	// then give up half of the share of their packets that was marked (DCTCP, RFC 8257). Without it a mark counts as loss does (RFC 3168, RFC 8511), so
	// that others on the same network get their share. It is for networks of one operator only.
	DataCenter bool
	// NoECN keeps routers from marking the packets of both ends of a connection (RFC 3168). A path that marks everything, or that loses packets that can be marked, is
	// found out all the same; this spares the time until then.
	NoECN bool
	// FixedWindow turns congestion control off: each connection keeps that many packets in flight, 1 to 65536, whatever happens to
	// them. It is for finding out what the controller costs, not for networks that others use. 0 is congestion control.
	FixedWindow int

	// PeerTimeout is how long the peer of an established connection may acknowledge nothing of what is on its way to it before the connection
	// is lost, as TCP_USER_TIMEOUT is for TCP; 0 is 5 s. The kernel acknowledges what TCP sends to a process that is stopped; here only the process
	// can: who is to outlive being stopped, by a debugger or with its machine, sets it at both ends. Connecting is not affected.
	PeerTimeout time.Duration

	// FlightLog gets the last events of the transport, for people, when a connection is lost: at most four times a second for each receive
	// queue, from a goroutine of its own, one Write each. When the adapter ends without being closed, it gets a line with the reason.
	// docs/CAPTURE.md explains them.
	FlightLog io.Writer

	// Inspect is the path of the socket through which this user, and root, look at the adapter and capture its packets (ndstat, ndinfo, package ndinspect). Empty: one
	// named after the process in ndinspect.Directory, if that can be made; nothing else changes if not. InspectOff: none.
	Inspect string

	engine provider.Config // what the tests of time-outs shorten; its zero value is right otherwise
}

// Adapter is a network interface opened for ND. It belongs to the network namespace of the thread that opened it. All
// methods may be called from any goroutine.
type Adapter struct {
	verbs   *verbs.Adapter
	udpPort uint16 // 0 over links made by a test
	flags   AdapterFlags
	inspection
}

// OpenAdapter opens the interface that has cfg.Address: it attaches the XDP program that steers ND traffic, opens an
// AF_XDP socket, and starts the goroutine that makes progress in the background. It needs CAP_NET_ADMIN, CAP_NET_RAW and
// CAP_BPF, and DatapathRing all but CAP_NET_RAW; DatapathUDP and AdapterConfig.Broker need none of them, and DatapathAuto makes do without. All else on the interface keeps going to the
// kernel.
//
// Errors: ErrInvalidParameter for an unknown datapath or a wrong FixedWindow, ErrInvalidAddress for an address that no interface has,
// ErrNoMemory when the machine has none left that may be pinned, ErrInsufficientResources without file descriptors or when cfg.Inspect cannot be made,
// ErrDeviceNotReady for all else, with the cause.
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
	cfg.engine.ImmediatePlacement, cfg.engine.DataCenter, cfg.engine.NoECN = cfg.ImmediatePlacement, cfg.DataCenter, cfg.NoECN
	if cfg.PeerTimeout > 0 {
		cfg.engine.Stalled = cfg.PeerTimeout
	}
	write := func(context.Context, func() error) {}
	if cfg.FlightLog != nil {
		cfg.engine.OnLost, write = logFlights(cfg.FlightLog)
	}
	h, o, cause := verbs.Open(verbs.Config{
		Address: cfg.Address, UDPPort: cfg.UDPPort, Rung: datapath.Rung(cfg.Datapath), Arena: cfg.ArenaBytes,
		Broker: cfg.Broker, BusyPoll: cfg.BusyPoll, Spin: cfg.Spin, Bulk: datapath.Bulk(cfg.Bulk),
	}, cfg.engine)
	if o != provider.OutcomeSuccess {
		return refuse(statusTable[o], cause)
	}
	if cfg.FlightLog != nil {
		go write(h.Life, h.Cause)
	}
	a := &Adapter{verbs: h, udpPort: cfg.UDPPort, flags: defaultFlags}
	if cfg.ImmediatePlacement {
		a.flags &^= AdapterInOrderDMA
	}
	if h.ReachesItself() {
		a.flags |= AdapterLoopbackConnections
	}
	if err := a.inspected(cfg.Inspect); err != nil {
		return refuse(ErrInsufficientResources, errors.Join(err, h.Close()))
	}
	return a, nil
}

func (a *Adapter) closed() bool { return a.verbs.Closed() }

// removed is the error of a call on an adapter that ended.
func (a *Adapter) removed(op string) error {
	return &Error{Op: op, Status: ErrDeviceRemoved, Err: a.verbs.Cause()}
}

// wrong is the error of a call with a wrong argument, by its position in the SPI's list, unless the adapter ended: that is checked first.
func (a *Adapter) wrong(op string, argument int) error {
	if a.closed() {
		return a.removed(op)
	}
	return &Error{Op: op, Status: ErrInvalidParameterN(argument)}
}

// Removed says why the adapter ended without being closed: its interface or its address was removed, its queues changed, or the broker
// ended. It is nil while the adapter works, and after a Close that came first. Calls on it fail with ErrDeviceRemoved and this cause.
func (a *Adapter) Removed() error { return a.verbs.Cause() }

// Info describes an adapter (ND2_ADAPTER_INFO). Sizes are bytes, depths requests.
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

// AdapterFlags say what an adapter can do (ND_ADAPTER_FLAG).
type AdapterFlags uint32

// The flags.
const (
	AdapterInOrderDMA          AdapterFlags = 0x1     // the last byte of a message becomes visible last
	AdapterCQModeration        AdapterFlags = 0x4     // CompletionQueue.Moderate works
	AdapterCQResize            AdapterFlags = 0x100   // CompletionQueue.Resize works
	AdapterLoopbackConnections AdapterFlags = 0x10000 // the adapter reaches its own address: not on a lease of a broker
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

// adapterID is the id of the adapter with an address: FNV-1a of it, the same as long as the address is.
func adapterID(addr netip.Addr) uint64 {
	id := uint64(14695981039346656037)
	for _, b := range provider.EndpointFrom(netip.AddrPortFrom(addr.Unmap(), 0)).IP {
		id = (id ^ uint64(b)) * 1099511628211
	}
	return id
}

// QueryAddressList returns the addresses of this adapter, which is the one it was opened with.
func (a *Adapter) QueryAddressList() []netip.Addr { return []netip.Addr{a.verbs.Addr} }

// DatapathInfo says how an adapter's packets move, and why.
type DatapathInfo struct {
	Interface, Driver string
	MTU, Queues       int
	Datapath          Datapath
	Reason            string
	ZeroCopy          bool // as the kernel says of the sockets
	BusyPoll          bool
	Copying           string // why AF_XDP copies packets; empty with ZeroCopy, and over plain sockets
	// OwnResetKey is why the secret by which peers are told that a process restarted is the adapter's own; empty when it is the host's. With the
	// host's, peers of a process that is killed and started again lose their connections at once, else after seconds of silence (PROTOCOL §7.4).
	OwnResetKey string
	// Apart is why plain sockets send and receive each packet by itself: the kernel lacks runs (UDP_SEGMENT, UDP_GRO). It is empty where there are runs. A peer to which the kernel refuses
	// a run gets none for a while, and others keep them.
	Apart string
	// BulkPort is the UDP port of the bulk lane, 0 without one beside the adapter's only port; NoBulk says why there is none, with the command that helps where one
	// does, or why it carries nothing any more.
	BulkPort uint16
	NoBulk   string
}

// Datapath tells how packets move.
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
		Interface:   i.Interface, Driver: i.Driver, MTU: i.MTU, Queues: i.Queues, Datapath: Datapath(i.Rung), Reason: i.Reason,
		Apart:    i.Alone,
		BulkPort: i.BulkPort, NoBulk: i.NoBulk,
		ZeroCopy: i.Socket.ZeroCopy, Copying: i.Copying, BusyPoll: i.Socket.BusyPoll,
	}
}

// Close ends every connection, finishes every pending call, detaches the XDP program and closes the socket. Objects of the
// adapter can still be closed afterwards; all else on them fails with ErrDeviceRemoved. Closing twice is harmless.
func (a *Adapter) Close() error { return errors.Join(a.closeInspection(), a.verbs.Close()) }
