package nd

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/provider"
)

// The limits of every adapter (ND specification section 4). Queue depths are equal for both directions because ND programs
// use one number for both.
const (
	maxRegistration = 1 << 40
	maxQueueDepth   = 16384
	maxCQDepth      = 1 << 18
	maxInline       = 256
	maxReadLimit    = 32
	sgeFloor        = 4 // every queue pair takes at least so many entries, whatever was asked (R-SGE)
)

// Datapath chooses how packets move.
type Datapath uint8

// The datapaths. DatapathAuto chooses by driver, from measurements, and takes DatapathUDP when this process lacks the
// privileges that the others need, or the interface is no Ethernet. All speak one wire format: peers need not match.
const (
	DatapathAuto    = Datapath(datapath.RungAuto)
	DatapathGeneric = Datapath(datapath.RungGeneric)
	DatapathNative  = Datapath(datapath.RungNative)
	DatapathUDP     = Datapath(datapath.RungUDP) // plain sockets: slower, and for everybody
)

// String names the datapath as flags do: auto, generic, native, udp.
func (d Datapath) String() string { return datapath.Rung(d).String() }

// ParseDatapath is the inverse of String.
func ParseDatapath(s string) (Datapath, error) {
	r, err := datapath.ParseRung(s)
	return Datapath(r), err
}

// AdapterConfig says which adapter to open.
type AdapterConfig struct {
	// Address is a local address; the adapter is the interface that has it.
	Address netip.Addr
	// UDPPort carries all ND traffic of the adapter, in both directions; 0 is 14791. Peers must use the same one. ND port
	// numbers have nothing to do with it.
	UDPPort  uint16
	Datapath Datapath
	// ArenaBytes is how much memory AllocateMemory can hand out that is sent without a copy. It is pinned while the adapter
	// is open. 0 is 16 MiB, negative none.
	ArenaBytes int
	// ImmediatePlacement writes bytes to where they belong as soon as they arrive, also when others that were sent before them
	// are lost or late. It saves receive memory on paths that reorder, and clears AdapterInOrderDMA: a program may not poll the last byte
	// of a message then, but has to wait for results, which come in order as always.
	ImmediatePlacement bool
}

const defaultUDPPort = 14791

const defaultArena = 16 << 20

// Adapter is a network interface opened for ND. It belongs to the network namespace of the thread that opened it.
type Adapter struct {
	addr   netip.Addr
	flags  AdapterFlags
	dp     datapath.Device // nil over a link made by a test
	memory *provider.Memory
	ports  []datapath.Port   // one for every receive queue
	shards []*provider.Shard // one for every port; the first one leads
	reach  func(context.Context, netip.Addr) error

	objects objects
	gone    atomic.Bool
	life    context.Context // ends with the adapter, for what waits outside the engine
	end     context.CancelCauseFunc
	once    sync.Once
	ended   error

	mu    sync.Mutex
	armed map[notifier]struct{} // what may have waiting Notify calls and is not closed; guarded by mu
	kept  []func() error        // give back memory that packets which were never sent refer to; guarded by mu
}

// OpenAdapter opens the interface that has cfg.Address: it attaches the XDP program that steers ND traffic, opens an
// AF_XDP socket, and starts the goroutine that makes progress in the background. It needs CAP_NET_ADMIN, CAP_NET_RAW and
// CAP_BPF; DatapathUDP needs none of them, and DatapathAuto makes do without. All else on the interface keeps going to the
// kernel.
func OpenAdapter(cfg AdapterConfig) (*Adapter, error) {
	if cfg.UDPPort == 0 {
		cfg.UDPPort = defaultUDPPort
	}
	refuse := func(s Status, err error) (*Adapter, error) {
		return nil, &Error{Op: "open adapter", Local: netip.AddrPortFrom(cfg.Address, cfg.UDPPort), Status: s, Err: err}
	}
	if _, err := ParseDatapath(cfg.Datapath.String()); err != nil {
		return refuse(ErrInvalidParameter, err)
	}
	if !cfg.Address.IsValid() || cfg.Address.IsUnspecified() || cfg.Address.IsMulticast() {
		return refuse(ErrInvalidAddress, nil)
	}
	arena := cfg.ArenaBytes
	if arena == 0 {
		arena = defaultArena
	}
	dp, err := datapath.Open(datapath.Config{
		Address: cfg.Address, UDPPort: cfg.UDPPort, Rung: datapath.Rung(cfg.Datapath), Arena: max(arena, 0),
	})
	if err != nil {
		var unknown *datapath.AddressError
		if errors.As(err, &unknown) {
			return refuse(ErrInvalidAddress, err)
		}
		return refuse(ErrDeviceNotReady, err)
	}
	a := newAdapter(cfg, dp.Ports(), dp.Resolve)
	a.dp = dp
	dp.Watch(a.remove, func(port int, f func(*provider.Engine)) { a.shards[port].Do(f) })
	return a, nil
}

// newAdapter joins an engine to every port.
func newAdapter(cfg AdapterConfig, ports []datapath.Port, reach func(context.Context, netip.Addr) error) *Adapter {
	a := &Adapter{
		addr: cfg.Address.Unmap(), memory: provider.NewMemory(random()), reach: reach, armed: map[notifier]struct{}{},
		ports: ports, flags: AdapterInOrderDMA | AdapterCQModeration | AdapterCQResize,
	}
	if cfg.ImmediatePlacement {
		a.flags &^= AdapterInOrderDMA
	}
	a.life, a.end = context.WithCancelCause(context.Background())
	links := make([]provider.Link, len(ports))
	for i, port := range ports {
		links[i] = port
	}
	config := provider.Config{UDPPort: cfg.UDPPort, ImmediatePlacement: cfg.ImmediatePlacement}
	for i, engine := range provider.NewGroup(config, links, a.memory, random()) {
		a.shards = append(a.shards, provider.NewShard(engine, ports[i], clock.Machine))
	}
	return a
}

// random is a generator that nobody can predict: the memory table and the engines need one each, because they use it under
// locks of their own.
func random() *rand.Rand {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails (crypto/rand)
	return rand.New(rand.NewChaCha8(seed))
}

func (a *Adapter) closed() bool { return a.gone.Load() }

// remove ends everything because the interface is gone. What is pending finishes with ErrDeviceRemoved, and Close is still
// the application's to call.
func (a *Adapter) remove() {
	a.gone.Store(true)
	a.end(ErrDeviceRemoved)
	a.cancelNotifications()
	for i := range a.shards {
		a.shards[len(a.shards)-1-i].Do((*provider.Engine).Shutdown) // the leader last: connections come back to it
	}
}

// Info describes an adapter (ND2_ADAPTER_INFO). Sizes are bytes, depths requests.
type Info struct {
	VendorID, DeviceID         uint16
	AdapterID                  uint64
	MaxRegistrationSize        uint64
	MaxWindowSize              uint64
	MaxInitiatorSGE            int
	MaxReceiveSGE              int
	MaxReadSGE                 int
	MaxTransferLength          uint32
	MaxInlineDataSize          int
	MaxInboundReadLimit        uint32
	MaxOutboundReadLimit       uint32
	MaxReceiveQueueDepth       int
	MaxInitiatorQueueDepth     int
	MaxSharedReceiveQueueDepth int
	MaxCompletionQueueDepth    int
	InlineRequestThreshold     int
	LargeRequestThreshold      int
	MaxCallerData              int
	MaxCalleeData              int
	Flags                      AdapterFlags
}

// AdapterFlags say what an adapter can do (ND_ADAPTER_FLAG).
type AdapterFlags uint32

// The flags.
const (
	AdapterInOrderDMA   AdapterFlags = 0x1   // the last byte of a message becomes visible last
	AdapterCQModeration AdapterFlags = 0x4   // CompletionQueue.Moderate works
	AdapterCQResize     AdapterFlags = 0x100 // CompletionQueue.Resize works
)

// Query returns the adapter's limits.
//
// Errors: ErrDeviceRemoved.
func (a *Adapter) Query() (Info, error) {
	if a.closed() {
		return Info{}, &Error{Op: "query", Status: ErrDeviceRemoved}
	}
	return Info{
		AdapterID: adapterID(a.addr), MaxRegistrationSize: maxRegistration, MaxWindowSize: maxRegistration,
		MaxInitiatorSGE: provider.MaxSGE, MaxReceiveSGE: provider.MaxSGE, MaxReadSGE: provider.MaxSGE,
		MaxTransferLength: provider.MaxTransfer, MaxInlineDataSize: maxInline, InlineRequestThreshold: maxInline,
		MaxInboundReadLimit: maxReadLimit, MaxOutboundReadLimit: maxReadLimit,
		MaxReceiveQueueDepth: maxQueueDepth, MaxInitiatorQueueDepth: maxQueueDepth, MaxCompletionQueueDepth: maxCQDepth,
		MaxSharedReceiveQueueDepth: maxSharedDepth,
		LargeRequestThreshold:      4096, MaxCallerData: provider.MaxPrivateData, MaxCalleeData: provider.MaxPrivateData,
		Flags: a.flags,
	}, nil
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
func (a *Adapter) QueryAddressList() []netip.Addr { return []netip.Addr{a.addr} }

// DatapathInfo says how an adapter's packets move, and why.
type DatapathInfo struct {
	Interface, Driver string
	MTU, Queues       int
	Datapath          Datapath
	Reason            string
	ZeroCopy          bool
}

// Datapath tells how packets move.
func (a *Adapter) Datapath() DatapathInfo {
	if a.dp == nil {
		return DatapathInfo{Reason: "no device"}
	}
	i := a.dp.Info()
	return DatapathInfo{
		Interface: i.Interface, Driver: i.Driver, MTU: i.MTU, Queues: i.Queues, Datapath: Datapath(i.Rung), Reason: i.Reason,
		ZeroCopy: i.Socket.ZeroCopy,
	}
}

// Stats counts what an adapter did since it was opened.
type Stats struct {
	PacketsIn, PacketsOut, BytesIn, BytesOut uint64
	Acks, Retransmits, Timeouts, Spurious    uint64
	Pauses                                   uint64 // times a peer's shared receive queue was empty
	Connections, Established, Refused, Lost  uint64
	// Relayed packets arrived on another receive queue than that of their connection; Moved connections followed them.
	Relayed, Moved uint64
	// PathProbes looked for a larger packet size and PathRaised found one; BlackHoles are paths that became smaller. PartsOut are
	// pieces of packets that did not fit their path any more, Reassembled packets that came in pieces.
	PathProbes, PathRaised, BlackHoles, PartsOut, Reassembled uint64

	// Drops counts packets that were not used, by reason.
	Drops map[string]uint64
}

// Stats reads the counters. It allocates, and takes each engine for a moment.
func (a *Adapter) Stats() Stats {
	var p provider.Stats
	for _, shard := range a.shards {
		shard.Do(func(e *provider.Engine) { p.Add(e.Stats()) })
	}
	s := Stats{
		PacketsIn: p.PacketsIn, PacketsOut: p.PacketsOut, BytesIn: p.BytesIn, BytesOut: p.BytesOut,
		Acks: p.AcksOut, Retransmits: p.Retransmits, Timeouts: p.Timeouts, Spurious: p.SpuriousTimeouts, Pauses: p.Pauses,
		Connections: p.Connections, Established: p.Established, Refused: p.Refused, Lost: p.Lost, Relayed: p.Relayed, Moved: p.Moved,
		PathProbes: p.PathProbes, PathRaised: p.PathRaised, BlackHoles: p.BlackHoles, PartsOut: p.PartsOut, Reassembled: p.Reassembled,
		Drops: p.DropsByName(),
	}
	if a.dp == nil {
		return s
	}
	// The socket's counters are for people; a socket that cannot be read reports none.
	if d, err := a.dp.Stats(); err == nil {
		for name, n := range map[string]uint64{
			"rx_dropped": d.Socket.RxDropped, "rx_ring_full": d.Socket.RxRingFull, "fill_ring_empty": d.Socket.FillRingEmpty,
			"tx_lost": d.Socket.TxLost + d.Lost, "tx_invalid": d.Socket.TxInvalid, "not_nd": d.Foreign,
			"port_taken": d.PortTaken, "too_long": d.TooLong,
		} {
			if n > 0 {
				s.Drops[name] = n
			}
		}
	}
	return s
}

// Close ends every connection, finishes every pending call, detaches the XDP program and closes the socket. Objects of the
// adapter can still be closed afterwards; all else on them fails with ErrDeviceRemoved. Closing twice is harmless.
func (a *Adapter) Close() error {
	a.once.Do(func() {
		a.remove()
		for _, shard := range a.shards {
			shard.Close()
		}
		if a.dp != nil {
			a.ended = errors.Join(a.dp.Close(), a.releaseKept())
		}
	})
	return a.ended
}

// keep leaves it to Close to give memory back.
func (a *Adapter) keep(release func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = append(a.kept, release)
}

// releaseKept gives back what keep was told of: nothing is sent any more.
func (a *Adapter) releaseKept() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, release := range a.kept {
		errs = append(errs, release())
	}
	a.kept = nil
	return errors.Join(errs...)
}

// cancelNotifications ends every waiting Notify, before the requests that are canceled next could satisfy it.
func (a *Adapter) cancelNotifications() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for q := range a.armed {
		q.CancelWaiters(provider.OutcomeDeviceRemoved)
	}
}

// notifier has waiting Notify calls.
type notifier interface{ CancelWaiters(provider.Outcome) }

// watch makes the adapter's end that of q's notifications, too.
func (a *Adapter) watch(q notifier) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed[q] = struct{}{}
}

// unwatch undoes watch.
func (a *Adapter) unwatch(q notifier) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.armed, q)
}
