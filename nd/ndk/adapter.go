package ndk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Version is a version of NDKPI.
type Version struct{ Major, Minor uint16 }

// Offered is the version of every adapter.
var Offered = Version{Major: 2, Minor: 0}

// AdapterConfig describes the adapter to open.
type AdapterConfig struct {
	// Address is a local address. It selects the interface that has it. If several interfaces have the same link-local address, the zone
	// names the interface, and their adapters need different UDP ports.
	Address netip.Addr
	// UDPPort is the well-known UDP port that connection requests go to; 0 is 14791. Both peers must use the same value. Further adapters
	// of an address receive on UDP ports of their own, by a broker or over plain sockets.
	UDPPort uint16
	// Datapath is auto, generic, native, udp, ring or tcx; empty is auto (package nd explains them). Two peers may use different
	// datapaths.
	Datapath string
	// Broker is the path of the socket of a broker (cmd/ndbroker), which opens AF_XDP for this process. The process then needs no
	// privileges. If the broker cannot serve it, opening fails; it never falls back to plain sockets. When the broker ends, the adapter
	// ends as if its interface had been removed. If Broker is empty, the process opens the datapath itself. If it lacks the privileges,
	// auto asks the broker at /run/ndbroker/<interface>, for at most one second.
	Broker string
	// Bulk is auto, off or only; empty is auto. See nd.AdapterConfig.Bulk.
	Bulk string
	// Spin bounds how long the adapter polls for packets before it sleeps; see nd.AdapterConfig.Spin.
	Spin time.Duration
	// DataCenter says that all routers on the path mark packets as in data centers; see nd.AdapterConfig.DataCenter.
	DataCenter bool
	// NoECN keeps routers from marking packets; see nd.AdapterConfig.NoECN.
	NoECN bool
	// FixedWindow turns congestion control off: 1 to 65536 packets are in flight; see nd.AdapterConfig.FixedWindow.
	FixedWindow int
	// RequireTLS refuses connections that are not encrypted; see nd.AdapterConfig.RequireTLS. The status is StatusInvalidParameter.
	RequireTLS bool
	// PeerTimeout is how long the peer of an established connection may be silent; see nd.AdapterConfig.PeerTimeout.
	PeerTimeout time.Duration
	// FlightLog receives a record of the last transport events of each lost connection; see nd.AdapterConfig.FlightLog.
	FlightLog io.Writer
	// Version is the version that the consumer was written for; zero is Offered.
	Version Version

	engine provider.Config // changed only by tests
}

// Adapter is a network interface opened for ND. One goroutine runs all callbacks of its objects. It belongs to the network namespace of the
// thread that opened it. Its methods may be called from any goroutine.
type Adapter struct {
	verbs *verbs.Adapter
	calls *calls
	root  object // antecedent of all other objects, direct or indirect

	closing [verbs.NumObjectKinds]atomic.Int32 // closed objects that have not ended

	once  sync.Once
	ended error
}

// OpenAdapter opens the interface that has cfg.Address. It needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF. The datapath udp and a broker need
// none of them, and auto falls back to a datapath that the process may open.
//
// Errors: StatusBadVersion for another major version than Offered, or a later minor version; StatusInvalidParameter for an unknown
// datapath or bulk path, and for a FixedWindow out of range; StatusInvalidAddress if no interface has the address; StatusInsufficientResources if memory or file descriptors ran out;
// StatusAdapterNotReady otherwise, with the cause.
func OpenAdapter(cfg AdapterConfig) (*Adapter, error) {
	refuse := func(s Status, cause error) (*Adapter, error) {
		if cause != nil {
			return nil, fmt.Errorf("ndk: open adapter %s: %w: %w", cfg.Address, s, cause)
		}
		return nil, fmt.Errorf("ndk: open adapter %s: %w", cfg.Address, s)
	}
	if v := cfg.Version; v != (Version{}) && (v.Major != Offered.Major || v.Minor > Offered.Minor) {
		return refuse(StatusBadVersion, nil)
	}
	datapath := verbs.DatapathAuto
	if cfg.Datapath != "" {
		var err error
		if datapath, err = verbs.ParseDatapath(cfg.Datapath); err != nil {
			return refuse(StatusInvalidParameter, err)
		}
	}
	bulk := verbs.Bulk(0) // auto
	if cfg.Bulk != "" {
		var err error
		if bulk, err = verbs.ParseBulk(cfg.Bulk); err != nil {
			return refuse(StatusInvalidParameter, err)
		}
	}
	if cfg.FixedWindow < 0 || cfg.FixedWindow > verbs.MaxFixedWindow {
		return refuse(StatusInvalidParameter, fmt.Errorf("FixedWindow is %d, want 1 to %d packets, or 0", cfg.FixedWindow, verbs.MaxFixedWindow))
	}
	write := cfg.tune()
	h, o, cause := verbs.Open(verbs.Config{
		Address: cfg.Address, UDPPort: cfg.UDPPort, Datapath: datapath, Arena: -1, Broker: cfg.Broker,
		Spin: cfg.Spin, Bulk: bulk,
	}, cfg.engine)
	if o != provider.OutcomeSuccess {
		return refuse(statusTable[o], cause)
	}
	if write != nil {
		go write(h.Life, h.Cause)
	}
	if err := h.Mappings.Reserve(h.Memory); err != nil {
		return refuse(StatusAdapterNotReady, errors.Join(err, h.Close()))
	}
	h.RequireTLS = cfg.RequireTLS
	a := &Adapter{verbs: h, calls: newCalls()}
	a.root.adapter, a.root.refs = a, 1
	return a, nil
}

// tune sets the engine's configuration. It returns the writer of FlightLog, or nil without one.
func (c *AdapterConfig) tune() (write func(context.Context, func() error)) {
	c.engine.DataCenter, c.engine.NoECN = c.DataCenter, c.NoECN
	if c.FixedWindow > 0 {
		c.engine.Control, c.engine.FixedWindow = provider.ControlFixed, c.FixedWindow
	}
	if c.PeerTimeout > 0 {
		c.engine.Stalled = c.PeerTimeout
	}
	if c.FlightLog != nil {
		c.engine.OnLost, write = verbs.LogFlights(c.FlightLog)
	}
	return write
}

// unless returns s, or StatusDeviceRemoved if the adapter has ended.
func (a *Adapter) unless(s Status) Status {
	if a.verbs.Closed() {
		return StatusDeviceRemoved
	}
	return s
}

// Removed says why the adapter ended without being closed: its interface or address was removed, its queues changed, or the broker ended.
// It returns nil while the adapter works, and if Close came first.
func (a *Adapter) Removed() error { return a.verbs.Cause() }

// Close ends every connection and cancels all pending requests with StatusDeviceRemoved. It then waits until every object of the adapter is
// closed and every callback has returned; WaitsFor says what it waits for. The application closes the objects, before Close or meanwhile.
// Close must not be called from a callback. A second call waits like the first one.
func (a *Adapter) Close() error {
	a.once.Do(func() {
		a.ended = a.verbs.Close()
		over := make(chan struct{})
		if a.root.closeRoot(func(any) { close(over) }) {
			<-over
		}
		a.calls.stop()
	})
	return a.ended
}

// closeRoot closes the object that represents the adapter. It reports whether other objects are still open.
func (o *object) closeRoot(done CloseCompletion) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing.Store(true)
	o.done = done
	return !o.release()
}

// AdapterFlags are capabilities of an adapter (NDK_ADAPTER_FLAG).
type AdapterFlags uint32

// Values of AdapterFlags.
const (
	AdapterInOrderDMA              AdapterFlags = 0x1
	AdapterReadSinkNotRequired     AdapterFlags = 0x2
	AdapterCQInterruptModeration   AdapterFlags = 0x4
	AdapterMultiEngine             AdapterFlags = 0x8
	AdapterRDMAReadLocalInvalidate AdapterFlags = 0x10
	AdapterCQResize                AdapterFlags = 0x100
	AdapterLoopbackConnections     AdapterFlags = 0x10000 // the adapter can connect to its own address: not on a lease of a broker
)

// Info describes an adapter (NDK_ADAPTER_INFO). Sizes are in bytes, depths in requests.
type Info struct {
	Version                Version
	VendorID, DeviceID     uint32
	MaxRegistrationSize    uint64
	MaxWindowSize          uint64
	FRMRPageCount          uint32
	MaxInitiatorRequestSGE int
	MaxReceiveRequestSGE   int
	MaxReadRequestSGE      int
	MaxTransferLength      uint32
	MaxInlineDataSize      int
	MaxInboundReadLimit    uint32
	MaxOutboundReadLimit   uint32
	MaxReceiveQueueDepth   int
	MaxInitiatorQueueDepth int
	MaxSRQDepth            int
	MaxCQDepth             int
	LargeRequestThreshold  int
	MaxCallerData          int
	MaxCalleeData          int
	Flags                  AdapterFlags
	RDMATechnology         uint32 // 0: undefined
}

// QueryInfo returns the adapter's limits. Statuses: StatusSuccess, StatusDeviceRemoved.
func (a *Adapter) QueryInfo() (Info, Status) {
	if a.verbs.Closed() {
		return Info{}, StatusDeviceRemoved
	}
	flags := AdapterInOrderDMA | AdapterReadSinkNotRequired | AdapterCQInterruptModeration | AdapterCQResize
	if a.verbs.ReachesItself() {
		flags |= AdapterLoopbackConnections
	}
	return Info{
		Version: Offered, MaxRegistrationSize: verbs.MaxRegistration, MaxWindowSize: verbs.MaxRegistration,
		FRMRPageCount:          maxFastPages,
		MaxInitiatorRequestSGE: provider.MaxSGE, MaxReceiveRequestSGE: provider.MaxSGE, MaxReadRequestSGE: provider.MaxSGE,
		MaxTransferLength: provider.MaxTransfer, MaxInlineDataSize: verbs.MaxInline,
		MaxInboundReadLimit: verbs.MaxReadLimit, MaxOutboundReadLimit: verbs.MaxReadLimit,
		MaxReceiveQueueDepth: verbs.MaxQueueDepth, MaxInitiatorQueueDepth: verbs.MaxQueueDepth,
		MaxSRQDepth: verbs.MaxSharedDepth, MaxCQDepth: verbs.MaxCQDepth, LargeRequestThreshold: verbs.LargeRequest,
		MaxCallerData: provider.MaxPrivateData, MaxCalleeData: provider.MaxPrivateData,
		Flags: flags,
	}, StatusSuccess
}
