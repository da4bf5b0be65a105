package follow

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/genetlink"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
)

// The times of a Follower.
const (
	// routePause is the time that changes of routes are collected before the routes to peers are looked up again. A replaced route is
	// removed first, and a routing daemon changes many routes at once.
	routePause = 50 * time.Millisecond
	// neighbourCare is the interval at which the neighbours in use are checked and reported to the kernel. The kernel then probes them as
	// for its own traffic, and does not collect them after 60 s (net.ipv4.neigh.default.gc_stale_time).
	neighbourCare = 10 * time.Second
	// mostStrangers bounds the number of neighbours of incoming peers that the kernel is asked for at a time. A source address may be
	// forged, and the kernel's table is shared.
	mostStrangers = 64
	// snapshotTries bounds the attempts to read the interface's state, which the kernel may change meanwhile.
	snapshotTries = 5
)

// EventsWaiting is the number of events that may wait for a Follower. If more events come, the whole state is read again.
const EventsWaiting = 64

// Own runs a function as the owner of the engine at a port.
type Own func(port int, f func(*provider.Engine))

// Followed is a device whose interface is followed.
type Followed interface {
	// React applies a change at one port, and reports whether the port had something to apply. The owner of the port calls it.
	React(port int, e *provider.Engine, c *Change, from int) (done, more bool)
	PortCount() int
	// Used adds to peers the peers of some paths of a port, beginning at path from. It returns where to continue, or 0 at the end. The
	// owner calls it.
	Used(port, from int, peers map[netip.Addr]struct{}) int
	// Detached reports whether the steering program is detached, so that no packets arrive. Anybody may ask.
	Detached() bool
	// Refresh makes the kernel resolve a neighbour that is the next hop of a peer.
	Refresh(hop, peer netip.Addr)
}

// Follower keeps a State current. It reads the kernel's events, queries the kernel if the events do not suffice, and makes the device
// apply changes. One goroutine does this.
type Follower struct {
	state   *State
	asker   *host.Resolver
	events  chan host.Event
	missed  atomic.Bool     // an event was dropped because too many waited
	told    chan []Change   // changes that other goroutines found
	routes  chan netip.Addr // peers whose routes must be looked up
	done    chan struct{}   // ends everything
	Running sync.WaitGroup

	Feed *host.Feed      // nil if a sandbox refuses the subscription: then an adapter on plain sockets does not follow its interface
	asks *genetlink.Conn // for queries about queues; nil if the kernel does not answer them

	device Followed
	own    Own
	gone   func(error)
	Unseen func() uint64 // returns the number of paths made so far
	looked uint64        // value of Unseen when the paths were last checked

	// Buffers for checking all paths and neighbours. They are kept because each process checks again and again.
	peers map[netip.Addr]struct{}
	hops  map[netip.Addr]netip.Addr
	to    map[netip.Addr][6]byte
	asked map[netip.Addr]struct{} // next hops of peers that called us, which the kernel did not know and was asked for at the last check
}

// New subscribes. Events wait in the queue until run reads them.
func New(state *State, asker *host.Resolver) (w *Follower, err error) {
	w = &Follower{
		state: state, asker: asker, events: make(chan host.Event, EventsWaiting), told: make(chan []Change), routes: make(chan netip.Addr, routesWaiting), done: make(chan struct{}),
		Unseen: func() uint64 { return 0 },
		peers:  map[netip.Addr]struct{}{}, hops: map[netip.Addr]netip.Addr{}, to: map[netip.Addr][6]byte{}, asked: map[netip.Addr]struct{}{},
	}
	if w.Feed, err = asker.Kernel.Subscribe(w, state.Ways); err != nil {
		return nil, err
	}
	if w.Feed == nil || !w.Feed.TellsOfQueues() { // plain sockets have no queues
		return w, nil
	}
	if w.asks, err = genetlink.Dial(); err != nil {
		asker.Kernel.Unsubscribe(w, state.Ways)
		return nil, fmt.Errorf("ask for queues: %w", err)
	}
	return w, nil
}

// Close ends the subscriptions, and waits until no callback runs.
func (w *Follower) Close() {
	close(w.done)
	if w.Feed != nil {
		w.asker.Kernel.Unsubscribe(w, w.state.Ways)
	}
	w.Running.Wait()
	if w.asks != nil {
		w.asks.Close()
	}
}

// Attach sets the device that applies changes. gone is called directly, not from a goroutine of its own.
func (w *Follower) Attach(device Followed, own Own, gone func(error)) {
	w.device, w.own, w.gone = device, own, gone
}

// Start follows the interface for a device until close. gone is called once, from a goroutine of its own, with the reason why the adapter
// ends. When Start returns, the state from which paths are made is known.
func (w *Follower) Start(device Followed, own Own, gone func(error)) {
	w.Attach(device, own, func(cause error) { go gone(cause) }) // gone may close the adapter, and Close waits for our goroutine
	if w.Feed == nil {
		return
	}
	w.Resync()
	w.Running.Go(w.run)
}

// run is the body of the follower's goroutine.
func (w *Follower) run() {
	pause, care := time.NewTimer(0), time.NewTicker(neighbourCare)
	defer care.Stop()
	defer pause.Stop()
	pause.Stop()
	for {
		select {
		case <-w.done:
			return
		case e := <-w.events:
			if w.missed.Swap(false) && e.Kind != host.EventBroken {
				e = host.Event{Kind: host.EventOverflow}
			}
			switch e.Kind {
			case host.EventRoutes:
				pause.Reset(routePause)
				continue
			case host.EventOverflow:
				w.note(&Change{What: provider.InterfaceResync})
				w.Resync()
				w.reroute()
				continue
			case host.EventBroken:
				w.act(w.state.broken(e.Err))
				continue
			case host.EventNeighbour:
				if e.Index == w.state.index && !w.state.uses(e.Hop) {
					if _, asked := w.asked[e.Hop]; asked {
						w.looked = 0 // check again, although no path is new
					}
					w.meet() // the event may be about a peer that called us
				}
			default:
			}
			w.act(w.state.apply(&e))
		case changes := <-w.told:
			w.act(changes)
		case peer := <-w.routes:
			w.lookAtRoute(peer)
		case <-pause.C:
			w.reroute()
		case <-care.C:
			w.Care()
		}
	}
}

// Tell passes on changes that another goroutine found.
func (w *Follower) Tell(changes []Change) {
	if len(changes) == 0 {
		return
	}
	select {
	case w.told <- changes:
	case <-w.done:
	}
}

// act applies changes at every port, and notes them in the flight recorders.
func (w *Follower) act(changes []Change) {
	for i := range changes {
		c := &changes[i]
		for port := range w.device.PortCount() {
			w.at(port, c)
		}
		for hop, peer := range c.ask {
			w.device.Refresh(hop, peer)
		}
		if c.What == provider.InterfaceMAC {
			w.introduce()
		}
		if c.cause != nil {
			w.gone(c.cause)
		}
	}
}

// at applies a change at one port, for some paths at a time. It notes the change there if the port had something to apply.
func (w *Follower) at(port int, c *Change) {
	noted := false
	for from, more := 0, true; more; from += PathsAtOnce {
		more = false // stays false if the engine has ended, because the function is not called then
		w.own(port, func(e *provider.Engine) {
			var did bool
			did, more = w.device.React(port, e, c, from)
			if did && !noted {
				noted = true
				e.InterfaceChanged(c.What, c.value)
			}
		})
	}
}

func (w *Follower) note(c *Change) { w.act([]Change{*c}) }

// Resync reads the whole state again.
func (w *Follower) Resync() {
	now, err := w.snapshot()
	for try := 1; err != nil && try < snapshotTries; try++ {
		now, err = w.snapshot()
	}
	if err != nil {
		w.act(w.state.broken(err))
		return
	}
	w.act(w.state.synced(now))
}

func (w *Follower) snapshot() (*snapshot, error) {
	index := w.state.index
	now := &snapshot{lowers: map[int]host.LinkFacts{}, own: map[host.Assigned]struct{}{}, locals: map[located]struct{}{}}
	links, err := host.Links(w.asker.Kernel.Netlink)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		f := host.FactsOf(l.Attrs())
		switch {
		case l.Attrs().Index == index:
			now.link = &f
		case f.Master == index:
			now.lowers[l.Attrs().Index] = f
		}
	}
	if now.link == nil {
		return now, nil
	}
	addrs, err := host.AllAddresses(w.asker.Kernel.Netlink)
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		a, ok := host.AssignedAs(&addrs[i])
		if !ok {
			continue
		}
		now.locals[located{addrs[i].LinkIndex, a}] = struct{}{}
		if addrs[i].LinkIndex == index {
			now.own[a] = struct{}{}
		}
	}
	if !w.state.Ways {
		return now, nil
	}
	if w.asks != nil {
		now.channels = host.AskChannels(w.asks, index)
	}
	now.neighbours = map[netip.Addr]host.Neighbour{}
	w.state.HopsInUse(w.hops)
	for hop := range w.hops {
		if now.neighbours[hop], err = w.asker.Look(hop); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// reroute looks up the route to every peer again.
func (w *Follower) reroute() {
	w.meet()
	for _, peer := range w.state.Stale() {
		w.look(peer)
	}
	w.relimit()
}

// look looks up the route to a peer.
func (w *Follower) look(peer netip.Addr) {
	by, err := w.asker.HopTo(peer)
	if err != nil {
		w.act(w.state.notFound(peer))
		return
	}
	n, err := w.asker.Look(by)
	if err != nil {
		return // care looks again
	}
	w.act(w.state.leads(peer, by, n.MAC, n.Known))
}

// meet looks up the routes to peers that connected to this adapter, if there are new paths, and forgets peers that have no path.
func (w *Follower) meet() {
	made := w.Unseen()
	if made == w.looked {
		return
	}
	w.looked = made
	peers := w.peers
	clear(peers)
	w.gather(peers)
	unknown := w.state.keepOnly(peers, clock.Machine())
	if len(unknown) == 0 {
		return
	}
	clear(w.asked)
	to := map[netip.Addr][6]byte{}
	for _, peer := range unknown {
		by, err := w.asker.HopTo(peer)
		if err != nil {
			continue
		}
		n, err := w.asker.Look(by)
		if err != nil {
			continue // care looks again
		}
		_, asked := w.asked[by]
		switch {
		case n.Known:
			w.state.Found(peer, by, n.MAC, clock.Machine())
			to[peer] = n.MAC
		case !asked && len(w.asked) < mostStrangers:
			w.asked[by] = struct{}{}
			w.device.Refresh(by, peer)
		}
	}
	if len(to) > 0 {
		w.note(&Change{What: provider.InterfaceRoute, To: to})
	}
}

// introduce probes every neighbour of a peer, including peers that connected to this adapter. This tells the neighbours the adapter's new
// link-layer address. Until they know it, they send to the old address.
func (w *Follower) introduce() {
	if !w.state.Ways { // the kernel probes neighbours that it sends packets to, and an end that only receives sends none
		clear(w.peers)
		w.gather(w.peers)
		for peer := range w.peers {
			w.device.Refresh(peer, peer)
		}
		return
	}
	w.looked = 0 // check again, also neighbours that were asked for and have not answered
	w.meet()
	w.state.HopsInUse(w.hops)
	for hop, peer := range w.hops {
		w.device.Refresh(hop, peer)
	}
}

// gather collects the peers of all paths.
func (w *Follower) gather(peers map[netip.Addr]struct{}) {
	for port := range w.device.PortCount() {
		for from := 0; ; {
			next := 0 // stays 0 if the engine has ended, because the function is not called then
			w.own(port, func(*provider.Engine) { next = w.device.Used(port, from, peers) })
			if from = next; from == 0 {
				break
			}
		}
	}
}

// Care checks the neighbours that packets go to, and tells the kernel that they are in use. It also checks the state that the kernel
// reports no events for.
func (w *Follower) Care() {
	w.state.forgetLimits(clock.Machine())
	if !w.state.Ways {
		w.state.keepOnly(nil, clock.Machine()) // the kernel finds the next hops of paths
		return
	}
	if w.device.Detached() {
		w.act(w.state.unsteered())
		return
	}
	w.looked = 0 // look again for neighbours that were not found
	w.meet()
	w.state.HopsInUse(w.hops)
	if len(w.hops) == 0 {
		return
	}
	for hop := range w.hops {
		if n, err := w.asker.Look(hop); err == nil { // if it fails, the next round looks again
			w.act(w.state.neighbourIs(hop, &n))
		}
	}
	// A connection that changed its port meanwhile may have missed a change at both ports.
	w.state.Addresses(w.to)
	w.note(&Change{What: provider.InterfaceRoute, To: w.to})
	for hop, peer := range w.hops {
		w.device.Refresh(hop, peer)
	}
}

// Offer implements host.Listener. It passes an event to the follower. A busy follower does not delay events for other listeners: it reads
// the whole state again.
func (w *Follower) Offer(e host.Event) {
	select {
	case w.events <- e:
	default:
		w.missed.Store(true) // the waiting events make the follower check
	}
}

// Broken implements host.Listener. Unsubscribe is called before Close waits for the goroutines.
func (w *Follower) Broken(err error) {
	w.Running.Go(func() {
		select {
		case w.events <- host.Event{Kind: host.EventBroken, Err: err}:
		case <-w.done:
		}
	})
}

// PathsAtOnce bounds how long a change that concerns all paths keeps an engine from its work: some microseconds.
const PathsAtOnce = 1024
