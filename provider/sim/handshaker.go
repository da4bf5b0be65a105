package sim

import (
	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/wire"
)

// Handshaker makes the TLS handshakes of one world in place of package shakertest.
type Handshaker interface {
	// Shaker returns the handshakes of one end, on a host with an address. kind varies them, and is the same for both ends. A handshake
	// refuses its peer if refuses returns true.
	Shaker(host [16]byte, client bool, kind uint64, refuses func() bool) shaker.Shaker
	// Wait returns when no handshake computes.
	Wait()
	// Peer returns the verified address of the peer by the state of a handshake. It returns false if there is no state.
	Peer(state any) (host [16]byte, ok bool)
}

// realEnd returns the handshakes of one end of a session by the world's Handshaker.
func (s *secrets) realEnd(h *Host, client bool, kind uint64) *tlsEnd {
	end := &tlsEnd{}
	x := &timed{s: s, later: s.later(h)}
	x.shaker = s.real.Shaker(h.IP, client, kind, func() bool { return end.refuses })
	end.Shaker, end.counts = x, func() (begun, closed int) { return x.begun, x.closed }
	return end
}

// timed makes handshakes follow virtual time: each Step is computed at once, and delivered after a drawn while. If all computations have results
// of constant size, a world depends only on its seed.
type timed struct {
	s             *secrets
	shaker        shaker.Shaker
	later         func(func())
	begun, closed int
}

type timedHandshake struct {
	shaker.Handshake
	of      *timed
	deliver func(*shaker.Step)
	steps   []*shaker.Step // computed, and not delivered
	closed  bool
}

// Begin implements shaker.Shaker.
func (x *timed) Begin(local, remote wire.Endpoint, params []byte, deliver func(*shaker.Step)) shaker.Handshake {
	x.begun++
	h := &timedHandshake{of: x, deliver: deliver}
	h.Handshake = x.shaker.Begin(local, remote, params, func(step *shaker.Step) { h.steps = append(h.steps, step) })
	h.compute()
	return h
}

// compute waits for the computation, and plans the delivery of its results.
func (h *timedHandshake) compute() {
	h.of.s.real.Wait()
	if len(h.steps) > 0 {
		h.of.later(h.flush)
	}
}

// flush delivers in order what was computed until now.
func (h *timedHandshake) flush() {
	steps := h.steps
	h.steps = nil
	for _, step := range steps {
		if !h.closed {
			h.deliver(step)
		}
	}
}

// Give implements shaker.Handshake.
func (h *timedHandshake) Give(level wire.ShakeLevel, b []byte) bool {
	if h.of.s.busy() || !h.Handshake.Give(level, b) {
		return false
	}
	h.compute()
	return true
}

// Close implements shaker.Handshake.
func (h *timedHandshake) Close() {
	if !h.closed {
		h.closed = true
		h.of.closed++
	}
	h.Handshake.Close()
	h.of.s.real.Wait()
}
