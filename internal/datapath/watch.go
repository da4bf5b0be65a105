package datapath

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

// The times of a watch.
const (
	// routePause is how long routes may go on changing before the ways to peers are looked up again. A replaced route is first removed, and
	// a routing daemon changes many routes at once.
	routePause = 50 * time.Millisecond
	// neighbourCare is how often neighbours in use are checked and the kernel is told that they are in use. The kernel then probes them as
	// for its own traffic, and does not collect them after 60 s (net.ipv4.neigh.default.gc_stale_time).
	neighbourCare = 10 * time.Second
	// mostStrangers bounds how many neighbours of incoming peers the kernel is asked for at a time: the source address may be forged, and
	// the kernel's table is shared.
	mostStrangers = 64
	// snapshotTries bounds reading the interface's state, which the kernel may change meanwhile.
	snapshotTries = 5
)

// eventsWaiting is how many events may wait for a watch. After more of them the state is read anew.
const eventsWaiting = 64

// own runs a function as the owner of the engine at a port.
type own func(port int, f func(*provider.Engine))

// watched is a device whose interface is followed.
type watched interface {
	// react does what a change asks for at one port, and says whether there was anything to do. The owner of the port calls it.
	react(port int, e *provider.Engine, c *change, from int) (done, more bool)
	portCount() int
	// used adds the peers of up to some paths of a port from one of them on, and returns the next one; 0 at the end. The owner calls it.
	used(port, from int, peers map[netip.Addr]struct{}) int
	// detached says that packets do not come to the device any more. Anybody may ask.
	detached() bool
	// refresh makes the kernel ask for a neighbour, behind which there is a peer.
	refresh(hop, peer netip.Addr)
}

// watch keeps a netState current: it reads the kernel's events, queries the kernel if they do not suffice, and makes the device act on
// changes. One goroutine does all of this.
type watch struct {
	state  *netState
	asker  *host.Resolver
	events chan host.Event
	missed atomic.Bool     // there was no room for an event
	told   chan []change   // changes that others found out
	routes chan netip.Addr // peers whose routes are to be looked at
	done   chan struct{}   // ends everything
	ended  sync.WaitGroup

	feed *host.Feed      // nil where a sandbox refuses it: then plain sockets are followed by nobody
	asks *genetlink.Conn // about queues; nil where the kernel does not tell of them

	device watched
	own    own
	gone   func(error)
	unseen func() uint64 // paths made so far
	looked uint64        // unseen when the paths were looked at last

	// Buffers for checking all paths and neighbours. They are kept because every process does this again and again.
	peers map[netip.Addr]struct{}
	hops  map[netip.Addr]netip.Addr
	to    map[netip.Addr][6]byte
	asked map[netip.Addr]struct{} // hops of peers that called us, which the kernel did not know and was asked for at the last look
}

// newWatch subscribes. Events queue up until run takes them.
func newWatch(state *netState, asker *host.Resolver) (w *watch, err error) {
	w = &watch{
		state: state, asker: asker, events: make(chan host.Event, eventsWaiting), told: make(chan []change), routes: make(chan netip.Addr, routesWaiting), done: make(chan struct{}),
		unseen: func() uint64 { return 0 },
		peers:  map[netip.Addr]struct{}{}, hops: map[netip.Addr]netip.Addr{}, to: map[netip.Addr][6]byte{}, asked: map[netip.Addr]struct{}{},
	}
	if w.feed, err = asker.Kernel.Subscribe(w, state.ways); err != nil {
		return nil, err
	}
	if w.feed == nil || !w.feed.TellsOfQueues() { // plain sockets have no queues
		return w, nil
	}
	if w.asks, err = genetlink.Dial(); err != nil {
		asker.Kernel.Unsubscribe(w, state.ways)
		return nil, fmt.Errorf("ask for queues: %w", err)
	}
	return w, nil
}

// close ends the subscriptions and waits until nobody is called any more.
func (w *watch) close() {
	close(w.done)
	if w.feed != nil {
		w.asker.Kernel.Unsubscribe(w, w.state.ways)
	}
	w.ended.Wait()
	if w.asks != nil {
		w.asks.Close()
	}
}

// start follows the interface for a device until close. gone is called once, from a goroutine of its own, with the reason why the
// adapter cannot go on. When start returns the state is known, which paths are made by.
func (w *watch) start(device watched, own own, gone func(error)) {
	w.device, w.own = device, own
	w.gone = func(cause error) { go gone(cause) } // it may close the adapter, which waits for our goroutine
	if w.feed == nil {
		return
	}
	w.resync()
	w.ended.Go(w.run)
}

// run is the goroutine.
func (w *watch) run() {
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
				w.note(&change{what: provider.InterfaceResync})
				w.resync()
				w.reroute()
				continue
			case host.EventBroken:
				w.act(w.state.broken(e.Err))
				continue
			case host.EventNeighbour:
				if e.Index == w.state.index && !w.state.uses(e.Hop) {
					if _, asked := w.asked[e.Hop]; asked {
						w.looked = 0 // the path is no new one
					}
					w.meet() // it may be a peer that called us
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
			w.care()
		}
	}
}

// tell passes on changes that were found by somebody else than the goroutine.
func (w *watch) tell(changes []change) {
	if len(changes) == 0 {
		return
	}
	select {
	case w.told <- changes:
	case <-w.done:
	}
}

// act does what changes ask for, at every port, and notes them in the flight recorders.
func (w *watch) act(changes []change) {
	for i := range changes {
		c := &changes[i]
		for port := range w.device.portCount() {
			w.at(port, c)
		}
		for hop, peer := range c.ask {
			w.device.refresh(hop, peer)
		}
		if c.what == provider.InterfaceMAC {
			w.introduce()
		}
		if c.cause != nil {
			w.gone(c.cause)
		}
	}
}

// at has one port act on a change, some paths at a time, and notes it there when there was something to do.
func (w *watch) at(port int, c *change) {
	noted := false
	for from, more := 0, true; more; from += pathsAtOnce {
		more = false // also where nobody owns an engine any more
		w.own(port, func(e *provider.Engine) {
			var did bool
			did, more = w.device.react(port, e, c, from)
			if did && !noted {
				noted = true
				e.InterfaceChanged(c.what, c.value)
			}
		})
	}
}

func (w *watch) note(c *change) { w.act([]change{*c}) }

// resync reads everything anew.
func (w *watch) resync() {
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

func (w *watch) snapshot() (*snapshot, error) {
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
	if !w.state.ways {
		return now, nil
	}
	if w.asks != nil {
		now.channels = host.AskChannels(w.asks, index)
	}
	now.neighbours = map[netip.Addr]host.Neighbour{}
	w.state.hopsInUse(w.hops)
	for hop := range w.hops {
		if now.neighbours[hop], err = w.asker.Look(hop); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// reroute asks for the way to every peer again.
func (w *watch) reroute() {
	w.meet()
	for _, peer := range w.state.stale() {
		w.look(peer)
	}
	w.relimit()
}

// look asks for the way to a peer.
func (w *watch) look(peer netip.Addr) {
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

// meet looks up the ways to peers that connected to this adapter, if there are new paths, and forgets peers that are gone.
func (w *watch) meet() {
	made := w.unseen()
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
			w.state.found(peer, by, n.MAC, clock.Machine())
			to[peer] = n.MAC
		case !asked && len(w.asked) < mostStrangers:
			w.asked[by] = struct{}{}
			w.device.refresh(by, peer)
		}
	}
	if len(to) > 0 {
		w.note(&change{what: provider.InterfaceRoute, to: to})
	}
}

// introduce probes every neighbour of a peer, including peers that connected to this adapter. This tells them the adapter's new link-layer
// address: until they know it, they send to the old one.
func (w *watch) introduce() {
	if !w.state.ways { // the kernel probes neighbours that packets are sent to; an end that only receives sends none
		clear(w.peers)
		w.gather(w.peers)
		for peer := range w.peers {
			w.device.refresh(peer, peer)
		}
		return
	}
	w.looked = 0 // includes neighbours that were asked for and have not answered
	w.meet()
	w.state.hopsInUse(w.hops)
	for hop, peer := range w.hops {
		w.device.refresh(hop, peer)
	}
}

// gather adds the peers of all paths.
func (w *watch) gather(peers map[netip.Addr]struct{}) {
	for port := range w.device.portCount() {
		for from := 0; ; {
			next := 0 // also where nobody owns an engine any more
			w.own(port, func(*provider.Engine) { next = w.device.used(port, from, peers) })
			if from = next; from == 0 {
				break
			}
		}
	}
}

// care looks at the neighbours that packets go to, and tells the kernel that they are in use. It also looks at what no event tells of.
func (w *watch) care() {
	w.state.forgetLimits(clock.Machine())
	if !w.state.ways {
		w.state.keepOnly(nil, clock.Machine()) // the kernel knows the ways of paths
		return
	}
	if w.device.detached() {
		w.act(w.state.unsteered())
		return
	}
	w.looked = 0 // what was not found is looked for again
	w.meet()
	w.state.hopsInUse(w.hops)
	if len(w.hops) == 0 {
		return
	}
	for hop := range w.hops {
		if n, err := w.asker.Look(hop); err == nil { // else the next round looks
			w.act(w.state.neighbourIs(hop, &n))
		}
	}
	// A connection that moved from port to port meanwhile may have missed a change at both.
	w.state.addresses(w.to)
	w.note(&change{what: provider.InterfaceRoute, to: w.to})
	for hop, peer := range w.hops {
		w.device.refresh(hop, peer)
	}
}

// Offer implements host.Listener. It brings an event to a watch. A busy watch keeps no events from others: it reads the state anew.
func (w *watch) Offer(e host.Event) {
	select {
	case w.events <- e:
	default:
		w.missed.Store(true) // the events that wait make it look
	}
}

// Broken implements host.Listener. unsubscribe comes before the watch waits for its goroutines.
func (w *watch) Broken(err error) {
	w.ended.Go(func() {
		select {
		case w.events <- host.Event{Kind: host.EventBroken, Err: err}:
		case <-w.done:
		}
	})
}
