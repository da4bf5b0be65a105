package datapath

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// watch follows what happens to the interface, by netlink subscription: peers whose link-layer address changes, another MTU,
// and the removal of the interface itself. An interface that goes down and comes up again only loses what is sent meanwhile.
type watch struct {
	links  chan netlink.LinkUpdate
	neighs chan netlink.NeighUpdate
	done   chan struct{} // ends the subscriptions
	ended  sync.WaitGroup
}

// newWatch subscribes in the calling thread's network namespace. Updates queue up until somebody takes them.
func newWatch() (*watch, error) {
	w := &watch{
		links: make(chan netlink.LinkUpdate, 64), neighs: make(chan netlink.NeighUpdate, 64), done: make(chan struct{}),
	}
	if err := netlink.LinkSubscribe(w.links, w.done); err != nil {
		return nil, fmt.Errorf("subscribe to interface changes: %w", err)
	}
	if err := netlink.NeighSubscribe(w.neighs, w.done); err != nil {
		close(w.done)
		return nil, fmt.Errorf("subscribe to neighbour changes: %w", err)
	}
	return w, nil
}

// mtuNow is the interface's MTU, which may have changed between opening and subscribing; fallback when it cannot be read.
func mtuNow(nl *netlink.Handle, index, fallback int) int {
	if link, err := nl.LinkByIndex(index); err == nil {
		return link.Attrs().MTU
	}
	return fallback
}

// close ends the subscriptions and waits until nobody is called any more.
func (w *watch) close() {
	close(w.done)
	w.ended.Wait()
}

// Watch makes the datapath follow the interface until Close: gone is called once when the interface is removed or the broker ends, and own runs
// a function as the owner of the engine at a port.
func (d *Datapath) Watch(gone func(), own func(port int, f func(*provider.Engine))) {
	gone = sync.OnceFunc(gone)
	if d.lease != nil {
		d.watch.ended.Go(func() {
			if d.lease.Gone() {
				go gone() // as below
			}
		})
	}
	resize := func(mtu int) {
		size := d.resized(mtu)
		for i, q := range d.queues {
			own(i, func(e *provider.Engine) { q.resize(e, size) })
		}
	}
	d.watch.ended.Go(func() {
		resize(mtuNow(d.nl, d.index, d.info.MTU))
		for {
			select {
			case <-d.watch.done:
				return
			case u, ok := <-d.watch.links:
				switch {
				case !ok:
					d.watch.links = nil // a subscription that ended says nothing more
				case int(u.Index) != d.index:
				case u.Header.Type == unix.RTM_DELLINK:
					d.watch.links = nil // one removal is enough
					// Not from here: gone may close the adapter, which waits for this goroutine.
					go gone()
				default:
					resize(u.Attrs().MTU)
				}
			case u, ok := <-d.watch.neighs:
				if !ok {
					d.watch.neighs = nil
					continue
				}
				if mac, moved := d.moved(&u); moved {
					addr, _ := netip.AddrFromSlice(u.IP)
					hop := addr.Unmap()
					for i, q := range d.queues {
						own(i, func(*provider.Engine) { q.repoint(hop, mac) })
					}
				}
			}
		}
	})
}

// resized is the largest packet after the interface's MTU became mtu. It does not grow beyond what the steering program was
// loaded for when the datapath was opened, nor shrink below what every path must carry (PROTOCOL §7.1): on an interface that
// does not, packets are lost until it does again, or the peers give up.
func (d *Datapath) resized(mtu int) int {
	if d.single {
		mtu = min(mtu, maxFrame-frameOverhead)
	}
	return max(packetOf(mtu, d.cfg.Address), wire.MinPacket)
}

// resize makes the engine use packets of up to size bytes. The owner calls it.
func (q *queue) resize(e *provider.Engine, size int) {
	if q.maxPacket != size {
		q.maxPacket = size
		e.Resized()
	}
}

// moved says whether a neighbour update gives an address that we may send to another link-layer address.
func (d *Datapath) moved(u *netlink.NeighUpdate) (mac [6]byte, ok bool) {
	if u.Type != unix.RTM_NEWNEIGH || u.LinkIndex != d.index || u.State&usable == 0 || len(u.HardwareAddr) != len(mac) {
		return mac, false
	}
	if _, valid := netip.AddrFromSlice(u.IP); !valid {
		return mac, false
	}
	copy(mac[:], u.HardwareAddr)
	return mac, true
}

// repoint sends what goes by the neighbour hop to mac from now on. The owner calls it.
func (q *queue) repoint(hop netip.Addr, mac [6]byte) {
	q.device.neighbors.learn(hop, mac)
	for i := range q.paths {
		p := &q.paths[i]
		if p.used && q.device.neighbors.hop(p.peer) == hop {
			p.header.SetDestination(mac)
		}
	}
}

// learn replaces the link-layer address of every peer that was resolved by way of hop.
func (t *neighbours) learn(hop netip.Addr, mac [6]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for dst, n := range t.known {
		if n.hop == hop {
			n.mac = mac
			t.known[dst] = n
		}
	}
}

// hop returns the neighbour by way of which dst was resolved; a peer that was never resolved, because it called us, is
// taken for a neighbour itself.
func (t *neighbours) hop(dst netip.Addr) netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.known[dst]; ok {
		return n.hop
	}
	return dst
}
