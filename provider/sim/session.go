package sim

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// session is one connection from first to last, with an application at either end.
type session struct {
	net      *Network
	rng      *rand.Rand
	a, b     *side // active and passive
	listener *provider.Listener
	at       wire.Endpoint
	ending   ending
	graceful bool // nothing was under way when it ended
	over     bool
	finishes int // of the ending that have not come
}

// ending is how a session comes to its close.
type ending uint8

const (
	activeFirst ending = iota
	passiveFirst
	bothAtOnce
	activeCloses
	passiveReleases
	numEndings
)

func (n *Network) newSession(i int, a, b *Host, requests int) *session {
	rng := rand.New(rand.NewPCG(n.rng.Uint64(), uint64(i)))
	s := &session{net: n, rng: rng, ending: ending(rng.IntN(int(numEndings)))}
	limits := func() [2]uint32 { return [2]uint32{uint32(rng.IntN(6)), uint32(rng.IntN(6))} }
	s.a = &side{s: s, host: a, rng: rng, name: "s" + strconv.Itoa(i) + "a", want: limits(), late: rng.IntN(3) == 0}
	s.b = &side{s: s, host: b, rng: rng, name: "s" + strconv.Itoa(i) + "b", want: limits(), late: rng.IntN(3) == 0}
	s.a.peer, s.b.peer = s.b, s.a
	for _, x := range []*side{s.a, s.b} {
		x.todo = rng.IntN(requests + 1)
		x.setUp()
	}
	for _, x := range []*side{s.a, s.b} {
		x.model = newInboxModel(x.peer.in.bytes())
		n.After(between(rng, 0, time.Millisecond), x.act)
	}
	s.at = wire.Endpoint{IP: b.IP, Port: uint16(1000 + i)}
	b.Do(func(e *provider.Engine) {
		s.listener = e.NewListener()
		_, o := s.listener.Bind(s.at)
		s.must("bind", o)
		s.must("listen", s.listener.Listen(1))
		s.must("get request", s.listener.GetRequest(s.b.ctr, s.then("get request", s.accept)))
	})
	n.After(between(rng, 0, 2*time.Millisecond), s.connect)
	return s
}

func (s *session) must(what string, o provider.Outcome) {
	if o != provider.OutcomeSuccess {
		s.net.Fail("%s: %s: %v", s.a.name, what, o)
	}
}

// think is how long an application takes before it goes on: mostly not long.
func (s *session) think() time.Duration {
	if s.rng.IntN(20) == 0 {
		return between(s.rng, 0, 20*time.Second) // ND never times out a slow application
	}
	return between(s.rng, 0, 200*time.Microsecond)
}

// then makes a Finish that goes on with next after a while, and takes everything but success for a failure. It must be
// called once.
func (s *session) then(what string, next func()) provider.Finish {
	times := 0
	return func(o provider.Outcome) {
		if times++; times > 1 {
			s.net.Fail("%s: %s finished twice", s.a.name, what)
		}
		s.must(what, o)
		s.net.After(s.think(), next)
	}
}

func (s *session) params(x *side) provider.ConnectParams {
	return provider.ConnectParams{Inbound: x.want[0], Outbound: x.want[1], Private: []byte(x.name)}
}

func (s *session) connect() {
	s.a.host.Do(func(*provider.Engine) {
		local := wire.Endpoint{IP: s.a.host.IP}
		s.must("connect", s.a.ctr.Connect(s.a.qp, local, s.at, s.params(s.a), s.then("connect", s.complete)))
	})
}

func (s *session) accept() {
	s.checkPrivate(s.b)
	s.b.host.Do(func(*provider.Engine) {
		s.must("accept", s.b.ctr.Accept(s.b.qp, s.params(s.b), s.then("accept", func() { s.established(s.b) })))
	})
}

func (s *session) complete() {
	s.checkPrivate(s.a)
	s.a.host.Do(func(*provider.Engine) {
		s.must("complete", s.a.ctr.CompleteConnect(s.then("complete", func() { s.established(s.a) })))
	})
}

func (s *session) checkPrivate(x *side) {
	private, o := x.ctr.Private()
	s.must("private data", o)
	if string(private) != x.peer.name {
		s.net.Fail("%s: private data %q", x.name, private)
	}
}

func (s *session) established(x *side) {
	in, out, o := x.ctr.ReadLimits()
	s.must("read limits", o)
	if in != min(x.want[0], x.peer.want[1]) || out != min(x.want[1], x.peer.want[0]) {
		s.net.Fail("%s: read limits %d and %d of %v and %v", x.name, in, out, x.want, x.peer.want)
	}
	x.ready = true
	if x == s.a && s.rng.IntN(4) == 0 {
		s.net.After(between(s.rng, 0, 20*time.Millisecond), s.end) // in the middle of things
	}
}

// settled says that both sides have done all they wanted, or that it does not matter any more.
func (s *session) settled() bool {
	return s.a.ended || s.a.ready && s.b.ready && s.a.quiet() && s.b.quiet()
}

// end ends the session in its way. From now on results may be CANCELED.
func (s *session) end() {
	if s.a.ended || !s.b.ready && !s.a.ready {
		return
	}
	s.graceful = s.a.ready && s.b.ready && s.a.quiet() && s.b.quiet()
	s.a.ended, s.b.ended = true, true
	s.net.trace.note(s.net.now, "end "+strconv.Itoa(int(s.ending)), s.a.name)
	switch s.ending {
	case activeFirst:
		s.disconnectInTurn(s.a, s.b)
	case passiveFirst:
		s.disconnectInTurn(s.b, s.a)
	case bothAtOnce:
		s.disconnect(s.a)
		s.disconnect(s.b)
	case activeCloses:
		s.a.host.Do(func(*provider.Engine) { s.a.ctr.Close() })
	default:
		s.b.host.Do(func(e *provider.Engine) { e.ReleaseQP(s.b.qp) })
	}
}

// disconnectInTurn lets y disconnect when it hears that x did.
func (s *session) disconnectInTurn(x, y *side) {
	y.host.Do(func(*provider.Engine) {
		heard := func(provider.Outcome) { s.net.After(min(s.think(), 5*time.Second), func() { s.disconnect(y) }) }
		if _, o := y.ctr.NotifyDisconnect(heard); o != provider.OutcomeSuccess && s.graceful {
			s.net.Fail("%s: notify: %v", y.name, o)
		}
	})
	s.disconnect(x)
}

func (s *session) disconnect(x *side) {
	x.host.Do(func(*provider.Engine) {
		s.finishes++
		o := x.ctr.Disconnect(func(o provider.Outcome) {
			s.finishes--
			if s.graceful {
				s.must("disconnect", o)
			}
		})
		if o != provider.OutcomeSuccess {
			s.finishes--
			if s.graceful {
				s.net.Fail("%s: disconnect: %v", x.name, o)
			}
		}
	})
}

// done says that the ending is through: every request has its result.
func (s *session) done() bool {
	s.over = s.a.ended && s.finishes == 0 && s.a.allEnded() && s.b.allEnded()
	return s.over
}

// tearDown releases everything and compares memory.
func (s *session) tearDown() {
	for _, x := range []*side{s.a, s.b} {
		x.host.Do(func(e *provider.Engine) {
			x.ctr.Close()
			e.ReleaseQP(x.qp)
			if x == s.b {
				s.listener.Close()
			}
			for _, m := range []area{x.mem, x.in, x.book} {
				if x.host.Memory.Deregister(m.region) != provider.OutcomeSuccess {
					s.net.Fail("%s: region was not registered", x.name)
				}
			}
		})
		x.finalCheck(s.graceful)
	}
}
