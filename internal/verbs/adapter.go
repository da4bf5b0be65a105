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
	"github.com/ndxdp/ndxdp/internal/hostkey"
	"github.com/ndxdp/ndxdp/provider"
)

// Adapter is a network interface opened for ND. It has one engine for every receive queue of the interface, each with a shard
// that runs it. The first one leads: it knows ports and listeners, and everything is made on it. Connectors and queue pairs
// move with their connection. All methods may be called from any goroutine.
type Adapter struct {
	Addr    netip.Addr      // what connections come from and go to
	Device  datapath.Device // nil over links made by a test
	Memory  *provider.Memory
	Objects Objects
	// Mappings are what requests may name without a registration of their own.
	Mappings Mappings
	Shards   []*provider.Shard // one for every port; the first one leads
	// KeyFault is why the key of the adapter's reset tokens is its own and not the host's (package hostkey); nil when it is the host's. Peers
	// then notice only by silence that the process restarted.
	KeyFault error
	Life     context.Context // ends with the adapter, for what waits outside the engines

	ports []datapath.Port // one for every receive queue
	reach func(context.Context, netip.Addr) error

	gone  atomic.Bool
	cause atomic.Pointer[error] // why the adapter ended without being closed; nil when it did not
	end   context.CancelFunc
	once  sync.Once
	ended error

	mu    sync.Mutex
	armed map[Notifier]struct{} // what may have waiting notifications and is not closed; guarded by mu
	// capturing is what the engines' taps feed; nil when they have none. Guarded by mu.
	capturing *capture.Feed
	kept      []func() error // give back memory that packets which were never sent refer to; guarded by mu
	sought    bool           // no search for a peer begins any more; guarded by mu
	seeks     sync.WaitGroup // searches that use the device
}

// Config says which interface to open, and how.
type Config = datapath.Config

// Rung is a way in which packets move.
type Rung = datapath.Rung

// RungAuto chooses one.
const RungAuto = datapath.RungAuto

// ParseRung is the rung with a name as flags have it: auto, generic, native, udp, ring, tcx.
func ParseRung(name string) (Rung, error) { return datapath.ParseRung(name) }

// DefaultUDPPort carries ND traffic unless another one is asked for.
const DefaultUDPPort = 14791

// DefaultArena is how many bytes of memory that is sent without a copy an adapter has unless it is asked for others.
const DefaultArena = 4 << 20

// Open opens the interface that has cfg.Address. A UDPPort of 0 is DefaultUDPPort; an Arena of 0 is DefaultArena, a negative one none. The
// engines have the port of cfg. cause is what is beneath a failure, when something is.
//
// Outcomes: OutcomeSuccess, OutcomeWrongAddress (no interface has it, or no single host), OutcomeNoMemory,
// OutcomeInsufficientResources (file descriptors), OutcomeNotReady for all else.
func Open(cfg Config, engine provider.Config) (a *Adapter, o provider.Outcome, cause error) {
	if !cfg.Address.IsValid() || cfg.Address.IsUnspecified() || cfg.Address.IsMulticast() {
		return nil, OutcomeWrongAddress, nil
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
	engine.Runs = info.Rung.OverSockets()
	engine.BulkPort, engine.BulkAlways = info.BulkPort, cfg.Bulk == datapath.BulkOnly
	if engine.Runs && info.Alone == "" && cfg.Bulk != datapath.BulkOff {
		engine.BulkPort = engine.ReceivePort // sockets take runs at their only port
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

// notOpened is the outcome of an interface that could not be opened.
func notOpened(err error) provider.Outcome {
	var unknown *datapath.AddressError
	switch {
	case errors.As(err, &unknown):
		return OutcomeWrongAddress
	case errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOBUFS): // none, or none that this process may pin or map
		return OutcomeNoMemory
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return provider.OutcomeInsufficientResources
	}
	return OutcomeNotReady
}

// New joins an engine to every port. reach finds the way to an address, and fails without one.
func New(addr netip.Addr, engine provider.Config, ports []datapath.Port, reach func(context.Context, netip.Addr) error) *Adapter {
	a := &Adapter{
		Addr: addr.Unmap(), Memory: provider.NewMemory(random()), reach: reach, armed: map[Notifier]struct{}{}, ports: ports,
	}
	a.Life, a.end = context.WithCancel(context.Background())
	links := make([]provider.Link, len(ports))
	for i, port := range ports {
		links[i] = port
	}
	for i, e := range provider.NewGroup(engine, links, a.Memory, random()) {
		a.Shards = append(a.Shards, provider.NewShard(e, ports[i], clock.Machine, a.broke))
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

// Closed says that the adapter was closed or its interface is gone.
func (a *Adapter) Closed() bool { return a.gone.Load() }

// ReachesItself says whether a connection to the adapter's own address works, and to others of its machine.
func (a *Adapter) ReachesItself() bool { return a.Device != nil && a.Device.Info().Itself }

// lose ends everything because the device cannot go on.
func (a *Adapter) lose(cause error) {
	a.because(cause)
	a.remove()
}

// because notes why the adapter ends, unless it has ended.
func (a *Adapter) because(cause error) {
	if !a.Closed() {
		a.cause.CompareAndSwap(nil, &cause)
	}
}

// Cause says why the adapter ended without being closed; nil when it did not.
func (a *Adapter) Cause() error {
	if p := a.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// remove ends everything. What is pending finishes with OutcomeDeviceRemoved, and Close is still
// the application's to call.
func (a *Adapter) remove() {
	a.gone.Store(true)
	a.end()
	a.cancelNotifications()
	for i := range a.Shards {
		a.Shards[len(a.Shards)-1-i].Do((*provider.Engine).Shutdown) // the leader last: connections come back to it
	}
	for _, shard := range a.Shards[1:] {
		shard.Do(func(*provider.Engine) {}) // it ends connections that left others for it after it was shut down
	}
}

// broke ends everything because an engine panicked. It is called with that engine locked, which ending needs.
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
	})
	return a.ended
}

// Stats adds up what the engines counted. It takes each engine for a moment.
func (a *Adapter) Stats() (s provider.Stats) {
	for _, shard := range a.Shards {
		shard.Do(func(e *provider.Engine) { s.Add(e.Stats()) })
	}
	return s
}

// cancelNotifications ends every waiting notification, before the requests that are canceled next could satisfy it.
func (a *Adapter) cancelNotifications() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for q := range a.armed {
		q.CancelWaiters(provider.OutcomeDeviceRemoved)
	}
}

// Notifier has waiting notifications.
type Notifier interface{ CancelWaiters(provider.Outcome) }

// Watch makes the adapter's end that of q's notifications, too.
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
