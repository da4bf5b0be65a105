package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// attempt is a handshake that is meant to fail. It uses the active queue pair of a session, which must be reusable afterwards.
type attempt struct {
	s        *session
	kind     attemptKind
	a, b     *provider.Connector
	life     [2]int // lives of the hosts at the beginning
	spare    *provider.QP
	listener *provider.Listener
	at       wire.Endpoint
	calls    []*call
	tls      tls
	refused  bool // by TLS or by its policy
}

// attemptKind is who makes the handshake fail, and how.
type attemptKind uint8

const (
	connectCanceled attemptKind = iota
	connectClosed
	passiveRejects
	activeDeclines
	acceptCanceled
	noListener
	tlsRefused
	listenerCloses
	numAttempts
)

// call is an asynchronous call to a connector, which must finish once.
type call struct {
	what    string
	times   int
	outcome provider.Outcome
}

// newAttempt begins an attempt. The session begins at its end.
func (n *Network) newAttempt(s *session) {
	t := &attempt{s: s, kind: attemptKind(s.rng.IntN(int(numAttempts))), life: [2]int{s.a.host.life, s.b.host.life}}
	t.at = wire.Endpoint{IP: s.b.host.IP, Port: s.at.Port + attemptPorts + 1000*uint16(s.again)}
	t.a, t.tls = s.a.host.Engine.NewConnector(), n.drawTLS(s.a.host, s.b.host)
	if t.kind == tlsRefused && t.tls[0] != nil {
		t.refuse(s.rng)
	}
	s.b.host.Do(func(e *provider.Engine) {
		t.b = e.NewConnector()
		t.spare = e.NewQP(provider.QPConfig{ReceiveCQ: s.b.cq, InitiatorCQ: s.b.cq, ReceiveDepth: 1, InitiatorDepth: 1})
		if t.kind == noListener {
			return
		}
		t.listener = e.NewListener()
		_, o := t.listener.Bind(t.at)
		s.must("bind", o)
		s.must("use TLS", t.tls.listen(t.listener))
		s.must("listen", t.listener.Listen(1))
		t.accepted("get request", func(f provider.Finish) provider.Outcome { return t.listener.GetRequest(t.b, f) }, t.onRequest)
	})
	s.a.host.Own(t.a, func(*provider.Engine) {
		s.must("use TLS", t.tls.connect(t.a))
		t.accepted("connect", func(f provider.Finish) provider.Outcome {
			return connect(t.a, s.a.qp, wire.Endpoint{IP: s.a.host.IP}, t.at, s.params(s.a), f)
		}, t.onAnswer)
	})
	n.After(between(s.rng, 0, 2*time.Millisecond+3*n.Delay), t.spoil)
	n.After(between(s.rng, 200*time.Millisecond, 8*time.Second), t.end)
}

// refuse makes the attempt fail by TLS: the client or the server refuses its peer by an alert, or only one of them encrypts.
func (t *attempt) refuse(rng *rand.Rand) {
	t.refused = true
	end := rng.IntN(2)
	if rng.IntN(2) == 0 {
		t.tls[end] = nil
		return
	}
	t.tls[end].refuses = true
}

// attemptPorts is the distance between the ports of attempts and of sessions.
const attemptPorts = 20000

// accepted makes a call, and calls next when it has succeeded.
func (t *attempt) accepted(what string, do func(provider.Finish) provider.Outcome, next func()) {
	c := &call{what: what}
	o := do(func(o provider.Outcome) {
		c.times++
		c.outcome = o
		if o == provider.OutcomeSuccess {
			t.s.net.After(between(t.s.rng, 0, time.Millisecond), func() {
				if t.alive() {
					next()
				}
			})
		}
	})
	if o == provider.OutcomeSuccess {
		t.calls = append(t.calls, c)
	}
}

func (t *attempt) alive() bool {
	return !t.s.given && t.life == [2]int{t.s.a.host.life, t.s.b.host.life}
}

// onRequest is the passive side's reaction to the request.
func (t *attempt) onRequest() {
	t.s.b.host.Own(t.b, func(*provider.Engine) {
		if t.kind == passiveRejects {
			t.reject(t.b)
			return
		}
		t.accepted("accept", func(f provider.Finish) provider.Outcome {
			return t.b.Accept(t.spare, provider.ConnectParams{}, f)
		}, func() {})
	})
}

// reject rejects the request. The peer may have given up meanwhile.
func (t *attempt) reject(k *provider.Connector) {
	if o := k.Reject([]byte("no")); o != provider.OutcomeSuccess && o != provider.OutcomeAborted && t.s.sound() {
		t.s.net.Fail("%s: attempt %d: reject: %v", t.s.a.name, t.kind, o)
	}
}

// onAnswer is the active side's reaction to the answer. It never completes the connection.
func (t *attempt) onAnswer() {
	if t.kind == activeDeclines {
		t.s.a.host.Own(t.a, func(*provider.Engine) { t.reject(t.a) })
	}
}

// spoil makes the handshake fail.
func (t *attempt) spoil() {
	if !t.alive() {
		return
	}
	switch t.kind {
	case connectCanceled:
		t.s.a.host.Own(t.a, func(*provider.Engine) { t.a.Cancel() })
	case connectClosed:
		t.s.a.host.Own(t.a, func(*provider.Engine) { t.a.Close() })
	case acceptCanceled:
		t.s.b.host.Own(t.b, func(*provider.Engine) { t.b.Cancel() })
	case listenerCloses:
		t.s.b.host.Do(func(*provider.Engine) { t.listener.Close() })
	default:
	}
}

// end releases everything and begins the session.
func (t *attempt) end() {
	s := t.s
	if s.a.host.life == t.life[0] {
		s.a.host.Own(t.a, func(*provider.Engine) { t.a.Close() })
	}
	if s.b.host.life == t.life[1] {
		s.b.host.Own(t.b, func(*provider.Engine) { t.b.Close() })
		s.b.host.Own(t.spare, func(*provider.Engine) { t.spare.Release() })
		if t.listener != nil {
			s.b.host.Do(func(*provider.Engine) { t.listener.Close() })
		}
	}
	if !t.alive() {
		return
	}
	if s.sound() {
		t.check()
	}
	s.begin()
}

// check checks that each call finished once and that the queue pair is unchanged.
func (t *attempt) check() {
	s := t.s
	for _, c := range t.calls {
		if c.times != 1 {
			s.net.Fail("%s: attempt %d: %s finished %d times", s.a.name, t.kind, c.what, c.times)
		}
		if c.what == "connect" && c.outcome == provider.OutcomeSuccess && (t.kind == noListener || t.kind == passiveRejects || t.refused) {
			s.net.Fail("%s: attempt %d: connected", s.a.name, t.kind)
		}
	}
	if st := s.a.qp.State(); st != provider.QPIdle {
		s.net.Fail("%s: attempt %d leaves the queue pair %v", s.a.name, t.kind, st)
	}
}
