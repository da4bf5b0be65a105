package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider"
)

// secrets are the TLS handshakes and the keys of a world's encrypted connections.
type secrets struct {
	rng    *rand.Rand
	share  int // of 100 sessions are encrypted
	suites int // 1: all have one suite; 3: each has one of the suites of TLS
	limits provider.KeyLimits
	stall  time.Duration // longest time in which a worker does not run
	real   Handshaker    // nil for package shakertest
	ends   []*tlsEnd
}

// firstSuite is the number in TLS of AES-128-GCM with SHA-256. Two more suites follow.
const firstSuite = 0x1301

// drawSecrets draws whether the connections of a world are encrypted: none, half or all. Keys change often, so that updates meet every
// other fault. Handshakes have up to the largest number of bytes, and their workers may stall.
func drawSecrets(seed uint64, o Options) *secrets {
	rng := rand.New(rand.NewPCG(seed, 0x7365616c))
	s := &secrets{rng: rng, share: []int{0, 50, 100, 100}[rng.IntN(4)], suites: []int{1, 1, 1, 3}[rng.IntN(4)]}
	s.limits = provider.KeyLimits{
		Update: 16 << rng.IntN(9), Age: between(rng, 10*time.Millisecond, 10*time.Second), Most: 1 << 23, Forged: 1 << 36, Keep: 2 * time.Second,
	}
	s.stall = []time.Duration{2 * time.Millisecond, 100 * time.Millisecond, time.Second}[rng.IntN(3)]
	if o.Handshaker != nil {
		s.real, s.share = o.Handshaker(), max(s.share, 50)
	}
	if o.Plain {
		s.share = 0
	}
	return s
}

// tls is what a session has of TLS: the handshakes of each end. Without them its connection is not encrypted.
type tls [2]*tlsEnd

// tlsEnd makes the handshakes of one end of a session.
type tlsEnd struct {
	shaker.Shaker
	counts  func() (begun, closed int)
	refuses bool // its handshakes refuse the peer
}

// drawTLS draws whether a session between two hosts is encrypted.
func (n *Network) drawTLS(a, b *Host) (t tls) {
	s := n.secrets
	if s == nil || s.rng.IntN(100) >= s.share {
		return tls{}
	}
	plan := shakertest.Plan{Seed: s.rng.Uint64(), Suite: uint16(firstSuite + s.rng.IntN(s.suites))}
	for i, h := range []*Host{a, b} {
		if s.real != nil {
			t[i] = s.realEnd(h, i == 0, plan.Seed)
		} else {
			t[i] = s.standIn(h, i == 0, plan)
		}
		if h.forger != nil {
			t[i].Shaker = &traitor{t[i].Shaker, h.forger}
		}
		s.ends = append(s.ends, t[i])
	}
	return t
}

// standIn returns the handshakes of one end of a session by package shakertest, because crypto/tls takes no seed.
func (s *secrets) standIn(h *Host, client bool, plan shakertest.Plan) *tlsEnd {
	x := &shakertest.Side{Client: client, Later: s.later(h), Busy: s.busy}
	end := &tlsEnd{Shaker: x, counts: x.Counts}
	x.Plan = func() shakertest.Plan {
		plan.Hello, plan.Rest = []int{300, 1500, 4096}[s.rng.IntN(3)], []int{100, 1500, 5000, 32 << 10}[s.rng.IntN(4)]
		if end.refuses {
			plan.Refuse = 42
		}
		return plan
	}
	return end
}

// later returns how results of handshakes reach a host: after a while, unless it restarted.
func (s *secrets) later(h *Host) func(func()) {
	return func(f func()) {
		d := between(s.rng, 0, 2*time.Millisecond)
		if s.rng.IntN(8) == 0 {
			d = between(s.rng, 0, s.stall)
		}
		life := h.life
		h.net.After(d, func() {
			if h.life == life {
				f()
				h.Poke()
			}
		})
	}
}

// busy draws whether a handshake takes no bytes now.
func (s *secrets) busy() bool { return s.rng.IntN(10) == 0 }

// listen makes a listener of the session's second end encrypt.
func (t *tls) listen(l *provider.Listener) provider.Outcome {
	if t[1] == nil {
		return provider.OutcomeSuccess
	}
	return l.UseTLS(t[1], false)
}

// connect makes a connector of the session's first end encrypt.
func (t *tls) connect(k *provider.Connector) provider.Outcome {
	if t[0] == nil {
		return provider.OutcomeSuccess
	}
	return k.UseTLS(t[0])
}

// checkTLS fails unless the connector has the state of a handshake if and only if its session is encrypted.
func (s *session) checkTLS(x *side, encrypted bool) {
	peer, ok := s.net.secrets.peerOf(x.ctr.TLS())
	switch {
	case !s.sound():
	case ok != encrypted:
		s.net.Fail("%s: encrypted %v, and not %v", x.name, ok, encrypted)
	case ok && peer != x.peer.host.IP:
		s.net.Fail("%s: the handshake was with another host", x.name)
	}
}

// peerOf returns the address of the peer by the state of a handshake. It returns false if there is no state.
func (s *secrets) peerOf(state any) (host [16]byte, ok bool) {
	if s != nil && s.real != nil {
		return s.real.Peer(state)
	}
	of, ok := state.(shakertest.State)
	return of.Remote.IP, ok
}

// auditSecrets fails if a handshake was not closed. Hosts that restarted closed nothing.
func (n *Network) auditSecrets() {
	for _, h := range n.hosts {
		if h.life > 1 {
			return
		}
	}
	if n.secrets == nil {
		return
	}
	for _, x := range n.secrets.ends {
		if begun, closed := x.counts(); begun != closed {
			n.Fail("%d TLS handshakes were begun, and %d closed", begun, closed)
		}
	}
}
