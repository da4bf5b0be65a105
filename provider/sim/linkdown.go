package sim

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// This file ends what a link has from others: its interface, its source ports, or the lease of a broker. The link carries nothing and gives no
// path. Then it goes on, or the engines are told that the adapter is gone, and the host opens another one.

const (
	mostDown    = 400 * time.Millisecond // shorter than the time after which a peer counts as dead
	mostNoticed = 50 * time.Millisecond  // until a host knows that its link is gone
	mostClosed  = 20 * time.Second       // until it has another one: peers may see silence, or a host that knows nothing of them
)

// drawLinks draws from a generator of its own, so that it does not change what a seed draws otherwise.
func (c *Conditions) drawLinks(rng *rand.Rand) {
	for _, f := range [...]Fault{LinkDown, LinkGone} {
		c.Rates[f] = rng.IntN(2) * (1 + rng.IntN(worst[f]))
	}
}

// randomLinkFault takes a host's link away for a while, or for good.
func (w *world) randomLinkFault(h *Host) {
	if d := between(w.links, 0, mostDown); chance(w.links, w.net.Rates[LinkDown]) {
		h.down(d)
	}
	if d := between(w.links, 0, mostNoticed); chance(w.links, w.net.Rates[LinkGone]) && h.forger == nil {
		w.loseLink(h, d)
	}
}

// down takes the host's link away for d.
func (h *Host) down(d time.Duration) {
	h.downUntil = max(h.downUntil, h.net.now.Add(d))
	h.net.trace.note(h.net.now, "link down "+strconv.Itoa(int(d/time.Millisecond))+" ms", h.name)
}

// isDown reports whether the host has no link now.
func (h *Host) isDown() bool { return h.net.now < h.downUntil }

// linkIsDown reports whether a packet is lost because an end has no link.
func (n *Network) linkIsDown(from, to *Host) bool {
	if !from.isDown() && !to.isDown() {
		return false
	}
	n.Happened[LinkDown]++
	return true
}

// loseLink ends the host's link for good. After d its engines are told.
func (w *world) loseLink(h *Host, d time.Duration) {
	w.net.Happened[LinkGone]++
	h.down(d)
	life := h.life
	w.net.After(d, func() {
		if h.life != life {
			return // it was restarted meanwhile
		}
		w.net.trace.note(w.net.now, "link gone", h.name)
		sides := w.sidesOn(h)
		for _, x := range sides {
			x.s.crashed, x.s.graceful, x.ended = true, false, true
		}
		h.shutDown()
		for _, x := range sides {
			x.checkRemoved()
		}
		w.forgetLife(h)
		h.down(between(w.links, 0, mostClosed))
	})
}

// shutDown ends the engines as an adapter does, the leading engine last.
func (h *Host) shutDown() {
	for i := range h.queues {
		q := h.queues[len(h.queues)-1-i]
		q.catchUp()
		q.engine.Shutdown()
		q.engine.Run(h.clock())
	}
	for _, q := range h.queues[1:] {
		q.engine.Run(h.clock()) // connections moved to the leading engine after it was shut down
	}
	for _, q := range h.queues {
		h.check(q.engine.Violation())
	}
}

// sidesOn are the sides of a host in sessions that are not over.
func (w *world) sidesOn(h *Host) (sides []*side) {
	w.each(func(s *session) {
		for _, x := range []*side{s.a, s.b} {
			if x.host == h && !x.dead && !s.over {
				sides = append(sides, x)
			}
		}
	})
	return sides
}

// checkRemoved checks a side whose engines were shut down: everything has a result, and memory is as it should be.
func (a *side) checkRemoved() {
	a.poll()
	if a.finishes != 0 {
		a.fail("Disconnect did not finish when the adapter ended")
	}
	switch st := a.ctr.State(); st {
	case provider.CtrConnecting, provider.CtrCompleting, provider.CtrAccepting, provider.CtrEstablished, provider.CtrDisconnecting:
		a.fail("still %v when the adapter has ended", st)
	default:
	}
	a.finalCheck(false)
}

// untilUp is how long a session has to wait until both hosts have a link.
func (s *session) untilUp() time.Duration {
	up := max(s.a.host.downUntil, s.b.host.downUntil)
	return max(up, s.net.now).Sub(s.net.now)
}
