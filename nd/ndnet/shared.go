package ndnet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// sharedIdle is how long an adapter that the package has opened stays open without users, because opening takes longer than connecting.
const sharedIdle = 2 * time.Second

// adapterKey identifies a shared adapter.
type adapterKey struct {
	addr     netip.Addr
	udpPort  uint16
	datapath nd.Datapath
}

// sharedAdapter is an adapter shared by all dialers and listeners of the process with the same key.
type sharedAdapter struct {
	adapter *nd.Adapter

	mu       sync.Mutex
	users    int // calls in progress, listeners and connections
	networks map[Config]*Network
	ended    bool // no new user gets the adapter
	idle     *time.Timer
}

// registry holds the adapters that the package has opened.
type registry struct {
	mu   sync.Mutex
	open map[adapterKey]*place
}

// place holds the adapter of a key. One goroutine at a time opens or closes it, which takes a while; a goroutine that only reads does not
// wait for that.
type place struct {
	mu  sync.Mutex
	now atomic.Pointer[sharedAdapter] // changes under mu
}

var adapters = registry{open: map[adapterKey]*place{}}

// network returns a network on the adapter with a key, and opens the adapter if necessary. The caller is a user of it until it calls drop.
func (r *registry) network(key adapterKey, cfg Config) (*Network, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	p := r.open[key]
	if p == nil {
		p = &place{}
		r.open[key] = p
	}
	r.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.now.Load(); s != nil && s.adapter.Removed() != nil {
		p.now.Store(nil)
		s.end() // its users close it when they leave
	}
	if p.now.Load() == nil {
		a, err := nd.OpenAdapter(nd.AdapterConfig{Address: key.addr, UDPPort: key.udpPort, Datapath: key.datapath, PeerTimeout: peerTimeout})
		if err != nil {
			return nil, err
		}
		p.now.Store(&sharedAdapter{adapter: a, networks: map[Config]*Network{}})
	}
	return p.now.Load().network(p, cfg)
}

// Wait waits until all closed connections of Dialer and ListenConfig have delivered their data or given up, and closed listeners have
// ended. If ctx ends first, it returns the context's error. It does not wait for open connections and listeners. Afterwards nothing is left
// of closed ones, not even a goroutine: adapters without users are closed at once, and not after two seconds.
//
// A program calls Wait before main returns if a Close may have left data to deliver.
func Wait(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("ndnet: wait: %w", errNil)
	}
	for _, n := range adapters.networks() {
		if err := n.Wait(ctx); err != nil {
			return err
		}
	}
	for _, p := range adapters.places() {
		if s := p.now.Load(); s != nil {
			p.closeIdle(s)
		}
	}
	return nil
}

func (r *registry) places() []*place {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.open))
}

// networks are the networks of all open adapters.
func (r *registry) networks() (all []*Network) {
	for _, p := range r.places() {
		if s := p.now.Load(); s != nil {
			s.mu.Lock()
			all = slices.AppendSeq(all, maps.Values(s.networks))
			s.mu.Unlock()
		}
	}
	return all
}

// peerTimeout is the PeerTimeout of shared adapters. It is long because programs of package net expect to survive a peer process that is
// stopped for a while. A dead peer is still noticed sooner than by TCP, which retransmits for a quarter of an hour.
const peerTimeout = time.Minute

func (s *sharedAdapter) network(p *place, cfg Config) (*Network, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.networks[cfg]
	if n == nil {
		var err error
		if n, err = New(s.adapter, cfg); err != nil {
			return nil, err
		}
		n.silence = peerTimeout
		n.hold, n.drop = s.use, func() { s.leave(p) }
		s.networks[cfg] = n
	}
	s.users++
	return n, nil
}

func (s *sharedAdapter) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

// leave ends a use. Some time after the last use the adapter is closed.
func (s *sharedAdapter) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	switch {
	case s.users > 0:
	case s.ended:
		go s.close()
	case s.idle == nil:
		s.idle = time.AfterFunc(sharedIdle, func() { p.closeIdle(s) })
	default:
		s.idle.Reset(sharedIdle)
	}
}

// end keeps new users from getting the adapter.
func (s *sharedAdapter) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended = true; s.users == 0 {
		go s.close()
	}
}

// close closes the adapter. There is no caller to return an error to.
func (s *sharedAdapter) close() { _ = s.adapter.Close() }

// closeIdle closes an adapter without users.
func (p *place) closeIdle(s *sharedAdapter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.now.Load() == s && s.users == 0 {
		p.now.Store(nil)
		s.close()
	}
}
