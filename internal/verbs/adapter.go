package verbs

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ndxdp/ndxdp/internal/capture"
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/hostkey"
	"github.com/ndxdp/ndxdp/internal/procmap"
	"github.com/ndxdp/ndxdp/provider"
)

// Adapter is a network interface opened for ND. It has one engine for every receive queue of the interface, each with a shard that runs
// it. The first engine leads: it knows ports and listeners, and all objects are made on it. Connectors and queue pairs move with their
// connection. All methods may be called from any goroutine.
type Adapter struct {
	Addr    netip.Addr      // local address of all connections
	Device  datapath.Device // nil for links made by a test
	Memory  *provider.Memory
	Objects Objects
	// Mappings are memory that requests may name without a registration of their own.
	Mappings Mappings
	Shards   []*provider.Shard // one for every port; the first one leads
	// KeyFault is why the adapter has a reset key of its own and does not use the host's key (package hostkey); nil if it uses the host's
	// key. Without the host's key, peers notice only by silence that the process restarted.
	KeyFault error
	// RequireTLS refuses attempts and listeners whose connections may be plain. It is set before the adapter is used.
	RequireTLS bool
	Life       context.Context // ends with the adapter, for waits outside the engines

	maps  *procmap.Maps   // nil if /proc is not mounted
	ports []datapath.Port // one for every receive queue
	reach func(context.Context, netip.Addr) error

	gone  atomic.Bool
	cause atomic.Pointer[error] // why the adapter ended without being closed; nil otherwise
	end   context.CancelFunc
	once  sync.Once
	ended error

	mu    sync.Mutex
	armed map[Notifier]struct{} // open objects that may have waiting notifications; guarded by mu
	// capturing receives the packets of the engines' taps; nil without taps. Guarded by mu.
	capturing *capture.Feed
	kept      []func() error // release memory that unsent packets refer to; guarded by mu
	sought    bool           // no further search for a peer begins; guarded by mu
	seeks     sync.WaitGroup // searches that use the device
}

// Config says which interface to open, and how.
type Config = plan.Config

// Datapath is a way in which packets move.
type Datapath = plan.Datapath

// DatapathAuto lets Open choose the datapath.
const DatapathAuto = plan.Auto

// ParseDatapath returns the datapath with a name as in flags: auto, generic, native, udp, ring, tcx.
func ParseDatapath(name string) (Datapath, error) { return plan.Parse(name) }

// Bulk is the choice of a bulk path.
type Bulk = plan.Bulk

// ParseBulk returns the choice of a bulk path with a name as in flags: auto, off, only.
func ParseBulk(name string) (Bulk, error) { return plan.ParseBulk(name) }

// longAfter is four times the length of a probe of long packets.
const longAfter = 256 << 10

// DefaultUDPPort is the default of the well-known UDP port.
const DefaultUDPPort = 14791

// DefaultArena is the default size, in bytes, of the memory that an adapter sends without a copy.
const DefaultArena = 4 << 20

// Open opens the interface that has cfg.Address. A UDPPort of 0 is DefaultUDPPort. An Arena of 0 is DefaultArena, a negative value none.
// The engines use the UDP port of cfg. cause is the error behind a failure, and may be nil.
//
// Outcomes: OutcomeSuccess, OutcomeWrongAddress (no interface has it, or it is not a single host), OutcomeNoMemory,
// OutcomeInsufficientResources (file descriptors), OutcomeNotReady otherwise.
func Open(cfg Config, engine provider.Config) (a *Adapter, o provider.Outcome, cause error) {
	if !cfg.Address.IsValid() || cfg.Address.IsUnspecified() || cfg.Address.IsMulticast() {
		return nil, OutcomeWrongAddress, errors.New("an adapter needs one address of an interface: choose one (ip address)")
	}
	if cfg.UDPPort == 0 {
		cfg.UDPPort = DefaultUDPPort
	}
	if cfg.Arena == 0 {
		cfg.Arena = DefaultArena
	}
	cfg.Arena = max(cfg.Arena, 0)
	dp, err := datapath.Open(cfg)
	if err != nil {
		return nil, notOpened(err), err
	}
	engine.UDPPort, engine.ReceivePort, engine.PortSpace = cfg.UDPPort, dp.ReceivePort(), dp.PortSpace()
	info := dp.Info()
	engine.Runs = info.Datapath.OverSockets()
	engine.BulkPort, engine.BulkAlways = info.BulkPort, cfg.Bulk == plan.BulkOnly
	if info.Long {
		engine.LongAfter = longAfter
	}
	if engine.Runs && info.Alone == "" && cfg.Bulk != plan.BulkOff {
		engine.BulkPort = engine.ReceivePort // plain sockets receive GSO batches at their only port
	}
	var keyFault error
	if engine.ResetKey == [hostkey.Len]byte{} {
		engine.ResetKey, keyFault = hostkey.Load()
	}
	a = New(cfg.Address.WithZone(""), engine, dp.Ports(), dp.Resolve)
	a.Device, a.KeyFault = dp, keyFault
	dp.Watch(a.lose, func(port int, f func(*provider.Engine)) { a.Shards[port].Do(f) })
	return a, provider.OutcomeSuccess, nil
}

// notOpened returns the outcome of a failed Open.
func notOpened(err error) provider.Outcome {
	var unknown *host.AddressError
	switch {
	case errors.As(err, &unknown):
		return OutcomeWrongAddress
	case errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOBUFS): // no memory, or none that this process may pin or map
		return OutcomeNoMemory
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return provider.OutcomeInsufficientResources
	}
	return OutcomeNotReady
}

// New makes an engine for every port. reach finds the route and neighbour of an address, and fails without a route.
func New(addr netip.Addr, engine provider.Config, ports []datapath.Port, reach func(context.Context, netip.Addr) error) *Adapter {
	a := &Adapter{
		Addr: addr.Unmap(), Memory: provider.NewMemory(random()), reach: reach, armed: map[Notifier]struct{}{}, ports: ports,
	}
	a.Life, a.end = context.WithCancel(context.Background())
	a.maps, _ = procmap.Open() // without them, mappings are not checked
	links := make([]provider.Link, len(ports))
	for i, port := range ports {
		links[i] = port
	}
	for i, e := range provider.NewGroup(engine, links, a.Memory, random()) {
		a.Shards = append(a.Shards, provider.NewShard(e, ports[i], clock.Machine, a.broke))
	}
	return a
}

// random is an unpredictable generator. The memory table and the engines need one each, because they use it under different locks.
func random() *rand.Rand {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails (crypto/rand)
	return rand.New(rand.NewChaCha8(seed))
}

// Closed reports whether the adapter was closed or its interface is gone.
func (a *Adapter) Closed() bool { return a.gone.Load() }

// ReachesItself reports whether connections to the adapter's own address, and to other adapters of its machine, work.
func (a *Adapter) ReachesItself() bool { return a.Device != nil && a.Device.Info().Itself }

// lose ends everything because the device failed.
func (a *Adapter) lose(cause error) {
	a.because(cause)
	a.remove()
}

// because records why the adapter ends, unless it has ended.
func (a *Adapter) because(cause error) {
	if !a.Closed() {
		a.cause.CompareAndSwap(nil, &cause)
	}
}

// Cause returns why the adapter ended without being closed, or nil.
func (a *Adapter) Cause() error {
	if p := a.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// remove ends everything. Pending requests finish with OutcomeDeviceRemoved. The application still has to call Close.
func (a *Adapter) remove() {
	a.gone.Store(true)
	a.end()
	a.cancelNotifications()
	for i := range a.Shards {
		a.Shards[len(a.Shards)-1-i].Do((*provider.Engine).Shutdown) // the leader last: connections move back to it
	}
	for _, shard := range a.Shards[1:] {
		shard.Do(func(*provider.Engine) {}) // ends connections that moved to the leader after it was shut down
	}
}

// broke ends everything because an engine panicked. It is called with this engine locked, and ending needs the lock.
func (a *Adapter) broke() {
	a.because(errors.New("the program panicked inside an engine"))
	a.gone.Store(true)
	go a.remove()
}

// Close ends every connection, finishes every pending request with OutcomeDeviceRemoved, stops the shards and closes the device.
// Closing twice is harmless.
func (a *Adapter) Close() error {
	a.once.Do(func() {
		a.remove()
		a.endSeeks()
		for _, shard := range a.Shards {
			shard.Close()
		}
		if a.Device != nil {
			a.ended = errors.Join(a.Device.Close(), a.releaseKept())
		}
		if a.maps != nil {
			a.ended = errors.Join(a.ended, a.maps.Close())
		}
	})
	return a.ended
}

// Stats adds up the counters of the engines. It locks each engine briefly.
func (a *Adapter) Stats() (s provider.Stats) {
	for _, shard := range a.Shards {
		shard.Do(func(e *provider.Engine) { s.Add(e.Stats()) })
	}
	return s
}

// cancelNotifications ends every waiting notification, before canceled requests could satisfy it.
func (a *Adapter) cancelNotifications() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for q := range a.armed {
		q.CancelWaiters(provider.OutcomeDeviceRemoved)
	}
}

// Notifier is an object with waiting notifications.
type Notifier interface{ CancelWaiters(provider.Outcome) }

// Watch makes the end of the adapter also end q's notifications.
func (a *Adapter) Watch(q Notifier) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed[q] = struct{}{}
}

// Unwatch undoes Watch.
func (a *Adapter) Unwatch(q Notifier) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.armed, q)
}
