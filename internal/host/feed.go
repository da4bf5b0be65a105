package host

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// feedBuffer is the number of bytes of events that may wait in the kernel. After an overflow the whole state is read again.
const feedBuffer = 1 << 20

// Listener receives events. Its methods must not block.
type Listener interface {
	Offer(Event)
	// Broken reports that no more events will come.
	Broken(error)
}

// Feed distributes the kernel's events to all listeners of a network namespace.
type Feed struct {
	route   *nl.NetlinkSocket
	ethtool *nl.NetlinkSocket // nil without ways, and if the kernel does not report queues
	ended   sync.WaitGroup

	mu        sync.Mutex
	listeners map[Listener]struct{} // guarded by mu
}

// Subscribe makes events queue up for a listener. With ways they include routes, neighbours and queues. The feed is nil if a sandbox
// refuses subscriptions.
func (k *Kernel) Subscribe(l Listener, ways bool) (*Feed, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := &k.feeds[feedOf(ways)]
	if *at == nil {
		f, err := openFeed(ways)
		if err != nil || f == nil {
			return nil, err
		}
		*at = f
	}
	(*at).add(l)
	return *at, nil
}

// Unsubscribe undoes subscribe. The last listener ends the feed.
func (k *Kernel) Unsubscribe(l Listener, ways bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := &k.feeds[feedOf(ways)]
	if (*at).remove(l) {
		(*at).close()
		*at = nil
	}
}

func feedOf(ways bool) int {
	if ways {
		return 1
	}
	return 0
}

// openFeed subscribes in the calling thread's network namespace.
func openFeed(ways bool) (f *Feed, err error) {
	f = &Feed{listeners: map[Listener]struct{}{}}
	groups := []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}
	if ways {
		groups = append(groups, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE,
			unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_NEXTHOP)
	}
	if f.route, err = nl.Subscribe(unix.NETLINK_ROUTE, groups...); err != nil {
		if NotOffered(err) && !ways {
			return nil, nil
		}
		return nil, fmt.Errorf("subscribe to changes of interfaces and routes: %w", err)
	}
	if f.SetBuffer(feedBuffer) != nil {
		_ = f.route.SetReceiveBufferSize(feedBuffer, false) // as much as this process may request
	}
	if ways {
		// ENOENT: before Linux 5.6, or without CONFIG_ETHTOOL_NETLINK.
		if f.ethtool, err = genetlink.Subscribe(ethtoolFamily, ethtoolMonitor); err != nil && !errors.Is(err, unix.ENOENT) {
			f.route.Close()
			return nil, fmt.Errorf("subscribe to changes of queues: %w", err)
		}
	}
	f.ended.Go(func() { f.listen(f.route, parseRoute) })
	if f.ethtool != nil {
		f.ended.Go(func() { f.listen(f.ethtool, parseEthtool) })
	}
	return f, nil
}

// SetBuffer makes the kernel keep so many bytes of events, or the most that the system allows. It needs CAP_NET_ADMIN.
func (f *Feed) SetBuffer(bytes int) error { return f.route.SetReceiveBufferSize(bytes, true) }

// TellsOfQueues reports whether the feed has events about queues.
func (f *Feed) TellsOfQueues() bool { return f.ethtool != nil }

func (f *Feed) add(l Listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners[l] = struct{}{}
}

// remove reports whether l was the last listener.
func (f *Feed) remove(l Listener) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listeners, l)
	return len(f.listeners) == 0
}

// close ends a feed without listeners.
func (f *Feed) close() {
	f.route.Close()
	if f.ethtool != nil {
		f.ethtool.Close()
	}
	f.ended.Wait()
}

// listen passes the events of a socket to the listeners.
func (f *Feed) listen(s *nl.NetlinkSocket, parse func(*syscall.NetlinkMessage) (Event, bool)) {
	for {
		messages, from, err := s.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// The subscription stays. The listeners read the lost state again.
			f.each(func(l Listener) { l.Offer(Event{Kind: EventOverflow}) })
		case errors.Is(err, unix.EINTR):
		case err != nil:
			f.each(func(l Listener) { l.Broken(err) })
			return
		case from.Pid != nl.PidKernel:
		default:
			for i := range messages {
				if e, ok := parse(&messages[i]); ok {
					f.each(func(l Listener) { l.Offer(e) })
				}
			}
		}
	}
}

func (f *Feed) each(do func(Listener)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		do(l)
	}
}
