package datapath

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// watchBuffer is how many bytes of events may wait in the kernel. After an overflow the state is read anew.
const watchBuffer = 1 << 20

// feed brings what the kernel tells to all watches of a network namespace.
type feed struct {
	route   *nl.NetlinkSocket
	ethtool *nl.NetlinkSocket // nil without ways, and where the kernel does not tell of queues
	ended   sync.WaitGroup

	mu      sync.Mutex
	watches map[*watch]struct{} // guarded by mu
}

// subscribe makes events queue up for a watch. With ways they include routes, neighbours and queues. The feed is nil where a sandbox refuses subscriptions.
func (k *kernel) subscribe(w *watch, ways bool) (*feed, error) {
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
	(*at).add(w)
	return *at, nil
}

// unsubscribe undoes subscribe. The last watch ends the feed.
func (k *kernel) unsubscribe(w *watch, ways bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := &k.feeds[feedOf(ways)]
	if (*at).remove(w) {
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
func openFeed(ways bool) (f *feed, err error) {
	f = &feed{watches: map[*watch]struct{}{}}
	groups := []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}
	if ways {
		groups = append(groups, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE,
			unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_NEXTHOP)
	}
	if f.route, err = nl.Subscribe(unix.NETLINK_ROUTE, groups...); err != nil {
		if notHere(err) && !ways {
			return nil, nil
		}
		return nil, fmt.Errorf("subscribe to changes of interfaces and routes: %w", err)
	}
	if f.route.SetReceiveBufferSize(watchBuffer, true) != nil {
		_ = f.route.SetReceiveBufferSize(watchBuffer, false) // as much as this process may have
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

func (f *feed) add(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[w] = struct{}{}
}

// remove reports whether w was the last watch.
func (f *feed) remove(w *watch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, w)
	return len(f.watches) == 0
}

// close ends a feed of no watches.
func (f *feed) close() {
	f.route.Close()
	if f.ethtool != nil {
		f.ethtool.Close()
	}
	f.ended.Wait()
}

// listen passes on what a socket brings.
func (f *feed) listen(s *nl.NetlinkSocket, parse func(*syscall.NetlinkMessage) (event, bool)) {
	for {
		messages, from, err := s.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// The subscription stands; what was lost is read anew.
			f.each(func(w *watch) { w.offer(event{kind: eventOverflow}) })
		case errors.Is(err, unix.EINTR):
		case err != nil:
			f.each(func(w *watch) { w.sayBroken(err) })
			return
		case from.Pid != nl.PidKernel:
		default:
			for i := range messages {
				if e, ok := parse(&messages[i]); ok {
					f.each(func(w *watch) { w.offer(e) })
				}
			}
		}
	}
}

func (f *feed) each(do func(*watch)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		do(w)
	}
}

// offer brings an event to a watch. A busy watch keeps no events from others: it reads the state anew.
func (w *watch) offer(e event) {
	select {
	case w.events <- e:
	default:
		w.missed.Store(true) // the events that wait make it look
	}
}

// sayBroken tells a watch that no events will come any more. unsubscribe comes before the watch waits for its goroutines.
func (w *watch) sayBroken(err error) {
	w.ended.Go(func() {
		select {
		case w.events <- event{kind: eventBroken, err: err}:
		case <-w.done:
		}
	})
}
