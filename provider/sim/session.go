package sim

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// session is one connection from beginning to end, with an application at each end.
type session struct {
	net      *Network
	rng      *rand.Rand
	a, b     *side // active and passive
	listener *provider.Listener
	at       wire.Endpoint
	tls      tls
	requests int
	again    int // number of sessions to follow
	ending   ending
	graceful bool     // nothing was in progress at its end
	crashed  bool     // one of its hosts restarted
	given    bool     // ended early because a peer is hostile or its host restarted
	revoked  *revoked // the grant that its owner ended; nil for none
	waiting  bool     // the next step of advance is planned
	over     bool
	next     *session
}

// newSession connects two hosts through a port of b. again is the number of further sessions after it.
func (n *Network) newSession(name string, port uint16, a, b *Host, requests, again int) *session {
	rng := rand.New(rand.NewPCG(n.rng.Uint64(), n.rng.Uint64()))
	s := &session{net: n, rng: rng, ending: ending(rng.IntN(int(numEndings))), requests: requests, again: again}
	s.at, s.tls = wire.Endpoint{IP: b.IP, Port: port}, n.drawTLS(a, b)
	limits := func() [2]uint32 { return [2]uint32{uint32(rng.IntN(6)), uint32(rng.IntN(6))} }
	s.a = &side{s: s, host: a, name: name + "a", want: limits(), late: rng.IntN(3) == 0}
	s.b = &side{s: s, host: b, name: name + "b", want: limits(), late: rng.IntN(3) == 0}
	s.a.peer, s.b.peer = s.b, s.a
	for _, x := range []*side{s.a, s.b} {
		x.todo = rng.IntN(requests + 1)
		x.setUp(requests < smallSession)
	}
	for _, x := range []*side{s.a, s.b} {
		x.model, x.leased = newInboxModel(x.peer.in.bytes()), newInboxModel(x.peer.lease.area.bytes())
		x.look(between(rng, 0, time.Millisecond))
		x.checkPatience()
	}
	if a.cfg.MaxPacket != b.cfg.MaxPacket {
		n.Happened[UnequalMTU]++
	}
	if !s.bothHonest() {
		n.After(between(rng, 20*time.Millisecond, 5*time.Second), s.abandon)
	}
	if rng.IntN(3) == 0 {
		n.newAttempt(s)
		return s
	}
	n.After(between(rng, 0, 2*time.Millisecond), s.begin)
	return s
}

// smallSession is the number of requests below which a session has little memory.
const smallSession = 20

func (s *session) bothHonest() bool { return s.a.host.forger == nil && s.b.host.forger == nil }

// sound reports whether only the network and the applications may have affected the session.
func (s *session) sound() bool { return !s.crashed && s.revoked == nil && s.bothHonest() }

// begin listens and connects.
func (s *session) begin() {
	if s.given || s.crashed {
		return
	}
	if d := s.untilUp(); d > 0 {
		s.net.After(d, s.begin)
		return
	}
	s.b.host.Do(func(e *provider.Engine) {
		s.listener = e.NewListener()
		_, o := s.listener.Bind(s.at)
		s.must("bind", o)
		s.must("use TLS", s.tls.listen(s.listener))
		s.must("listen", s.listener.Listen(1+s.rng.IntN(3)))
		s.must("get request", s.listener.GetRequest(s.b.ctr, s.then("get request", s.b, s.accept)))
	})
	s.net.After(between(s.rng, 0, time.Millisecond), s.connect)
}

// must reports whether a call succeeded. Otherwise it records a failure, if only the network can be the reason.
func (s *session) must(what string, o provider.Outcome) bool {
	if o == provider.OutcomeSuccess {
		return true
	}
	if s.sound() {
		s.net.Fail("%s: %s: %v", s.a.name, what, o)
	}
	s.abandon()
	return false
}

// think returns an application's thinking time, which is mostly short.
func (s *session) think() time.Duration {
	if s.rng.IntN(20) == 0 {
		return between(s.rng, 0, 20*time.Second) // ND never times out a slow application
	}
	return between(s.rng, 0, 200*time.Microsecond)
}

// then returns a Finish that calls next after a while, and records a failure on any outcome but success. It must be called once.
func (s *session) then(what string, x *side, next func()) provider.Finish {
	times := 0
	return func(o provider.Outcome) {
		if times++; times > 1 {
			s.net.Fail("%s: %s finished twice", x.name, what)
		}
		if s.given || !s.must(what, o) {
			return
		}
		s.net.After(s.think(), func() {
			if !s.given && !x.dead {
				next()
			}
		})
	}
}

func (s *session) params(x *side) provider.ConnectParams {
	return provider.ConnectParams{Inbound: x.want[0], Outbound: x.want[1], Private: []byte(x.name)}
}

func (s *session) connect() {
	if s.given || s.crashed {
		return
	}
	s.a.host.Own(s.a.ctr, func(*provider.Engine) {
		local := wire.Endpoint{IP: s.a.host.IP}
		s.must("use TLS", s.tls.connect(s.a.ctr))
		o := connect(s.a.ctr, s.a.qp, local, s.at, s.params(s.a), s.then("connect", s.a, s.complete))
		if o == provider.OutcomeHostUnreachable && s.net.Rates[NoPath]+s.net.Rates[LinkDown]+s.net.Rates[LinkGone] > 0 {
			s.net.After(s.think(), s.connect)
			return
		}
		s.must("connect", o)
	})
}

// connect begins an attempt and sends its request at once. fin is called if and only if the outcome is success.
func connect(k *provider.Connector, qp *provider.QP, local, remote wire.Endpoint, params provider.ConnectParams, fin provider.Finish) provider.Outcome {
	failed := false
	o := k.Begin(qp, local, remote, params, func() {}, func(o provider.Outcome) {
		if !failed {
			fin(o)
		}
	})
	if o != provider.OutcomeSuccess {
		return o
	}
	o, _ = k.Reached()
	if failed = o != provider.OutcomeSuccess; failed {
		k.NotReached(o)
	}
	return o
}

// accept takes the peer's request. After a restart, it may be an earlier request whose rejection is forgotten or whose sender is
// gone.
func (s *session) accept() {
	if private, o := s.b.ctr.Private(); o == provider.OutcomeSuccess && string(private) != s.a.name && max(s.a.host.life, s.b.host.life) > 1 {
		s.b.host.Own(s.b.ctr, func(*provider.Engine) { s.b.ctr.Close() })
		s.b.host.Do(func(e *provider.Engine) {
			s.b.ctr = e.NewConnector()
			s.must("get request", s.listener.GetRequest(s.b.ctr, s.then("get request", s.b, s.accept)))
		})
		return
	}
	s.checkPrivate(s.b)
	s.checkTLS(s.b, s.tls[1] != nil)
	s.b.host.Own(s.b.ctr, func(*provider.Engine) {
		s.must("accept", s.b.ctr.Accept(s.b.qp, s.params(s.b), s.then("accept", s.b, func() { s.established(s.b) })))
	})
}

func (s *session) complete() {
	s.checkPrivate(s.a)
	s.checkTLS(s.a, s.tls[0] != nil)
	completed := s.then("complete", s.a, func() { s.established(s.a) })
	s.a.host.Own(s.a.ctr, func(*provider.Engine) {
		if s.rng.IntN(2) == 0 {
			completed(s.a.ctr.CompleteConnectEarly())
		} else {
			s.must("complete", s.a.ctr.CompleteConnect(completed))
		}
	})
}

func (s *session) checkPrivate(x *side) {
	private, o := x.ctr.Private()
	if s.must("private data", o) && string(private) != x.peer.name && s.sound() {
		s.net.Fail("%s: private data %q", x.name, private)
	}
}

func (s *session) established(x *side) {
	in, out, o := x.ctr.ReadLimits()
	if !s.must("read limits", o) {
		return
	}
	if (in != min(x.want[0], x.peer.want[1]) || out != min(x.want[1], x.peer.want[0])) && s.sound() {
		s.net.Fail("%s: read limits %d and %d of %v and %v", x.name, in, out, x.want, x.peer.want)
	}
	x.ready = true
	x.look(0)
	s.planRevocation()
	if x == s.a && s.b.ctr.State() >= provider.CtrEstablished && s.rng.IntN(4) == 0 {
		s.net.After(between(s.rng, 0, 20*time.Millisecond), s.end) // while requests are in progress
	}
}

// bothQuiet reports whether both sides have completed all their requests.
func (s *session) bothQuiet() bool {
	return s.a.ready && s.b.ready && s.a.quiet() && s.b.quiet()
}

// done reports whether every request has a result.
func (s *session) done() bool {
	for _, x := range []*side{s.a, s.b} {
		if !x.ended || !x.allEnded() || x.finishes > 0 && !x.dead {
			return false
		}
	}
	return !s.given || (s.a.dead || s.a.closed) && (s.b.dead || s.b.closed)
}

// advance ends a session whose requests are complete, and tears it down after its end.
func (s *session) advance() {
	if s.waiting || s.over {
		return
	}
	var next func()
	switch {
	case s.done():
		next = s.tearDown
	case !s.a.ended && s.bothQuiet():
		next = s.end
	default:
		return
	}
	s.waiting = true
	s.net.After(between(s.rng, 0, time.Millisecond), func() {
		s.waiting = false
		next()
		s.advance()
	})
}

// tearDown releases everything and compares memory.
func (s *session) tearDown() {
	if s.over || !s.done() {
		return
	}
	s.over = true
	for _, x := range []*side{s.a, s.b} {
		if x.dead {
			continue
		}
		s.release(x)
		x.host.Do(func(*provider.Engine) {
			for _, m := range []area{x.mem, x.in, x.book, x.lease.area} {
				if o := x.host.Memory.Deregister(m.region); o != provider.OutcomeSuccess && !m.gone {
					s.net.Fail("%s: deregistering: %v", x.name, o)
				}
			}
			x.host.Memory.ReleaseWindow(x.lease.window)
		})
		x.host.Own(x.qp, func(*provider.Engine) {}) // results of released objects are reported
		x.poll()
		x.finalCheck(s.graceful)
	}
	if s.again > 0 {
		name := s.a.name[:len(s.a.name)-1]
		s.next = s.net.newSession(name+strconv.Itoa(s.again), s.at.Port, s.a.host, s.b.host, s.requests, s.again-1)
	}
}

// release releases what a side has in its engines.
func (s *session) release(x *side) {
	x.closed = true
	x.host.Own(x.ctr, func(*provider.Engine) { x.ctr.Close() })
	x.host.Own(x.qp, func(*provider.Engine) { x.qp.Release() })
	if x == s.b && s.listener != nil {
		x.host.Do(func(*provider.Engine) { s.listener.Close() })
	}
}
