package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/wire"
)

// addrPort is an ND endpoint: an IP address and an ND port. The zero address is the wildcard.
type addrPort = wire.Endpoint

// Listener receives connection requests for an endpoint.
type Listener struct {
	engine  *Engine
	at      addrPort
	bound   bool
	active  bool
	backlog int
	queue   []*conn  // received requests that were not fetched, oldest first
	waiting []waiter // pending GetRequest calls, oldest first
	closed  bool
	paused  bool
	event   func(*Connector) // if set, it receives requests instead of queue and waiting
	// announced is the number of requests passed to event and not answered yet. No call fetches these requests, so only an answer
	// makes room in the backlog.
	announced  int
	shaker     Shaker // of encrypted connections; nil to refuse them
	allowPlain bool   // with a shaker: other connections are not refused
}

type waiter struct {
	connector *Connector
	finish    Finish
}

// NewListener returns an unbound listener.
func (e *Engine) NewListener() *Listener { return &Listener{engine: e} }

// Bind binds an endpoint and returns it. Port 0 selects a free automatic port.
func (l *Listener) Bind(at addrPort) (addrPort, Outcome) {
	if l.closed {
		return addrPort{}, OutcomeInvalidState
	}
	if l.bound {
		return addrPort{}, OutcomeAddressAssociated
	}
	at, o := l.engine.directory.ports.Take(at, true, l.engine.rng)
	if o != OutcomeSuccess {
		return addrPort{}, o
	}
	l.at, l.bound = at, true
	return at, OutcomeSuccess
}

// Listen starts to accept requests. backlog bounds the requests that were not fetched, or not answered if OnRequest is set. 0
// selects guard.MaxBacklog.
func (l *Listener) Listen(backlog int) Outcome {
	if !l.bound || l.active || l.closed {
		return OutcomeInvalidState
	}
	if backlog <= 0 || backlog > guard.MaxBacklog {
		backlog = guard.MaxBacklog
	}
	l.backlog, l.active = backlog, true
	l.engine.directory.listeners[l.at] = l
	return OutcomeSuccess
}

// OnRequest makes the listener pass each request to event at once, with a new connector. The application accepts, rejects or closes
// it. event must not block and must not call the engine, but it may close the connector.
func (l *Listener) OnRequest(event func(*Connector)) { l.event = event }

// Pause makes a listener refuse every request, as if it did not exist, until Pause(false).
func (l *Listener) Pause(paused bool) { l.paused = paused }

// Local returns the endpoint while listening.
func (l *Listener) Local() (addrPort, Outcome) {
	if !l.active || l.closed {
		return addrPort{}, OutcomeInvalidState
	}
	return l.at, OutcomeSuccess
}

// GetRequest assigns the next request to ctr, now or when one arrives.
func (l *Listener) GetRequest(ctr *Connector, fin Finish) Outcome {
	if !l.active || l.closed {
		return OutcomeInvalidState
	}
	if ctr.home.Load() != l.engine || ctr.state != CtrIdle && ctr.state != CtrBound {
		return OutcomeConnectionActive // it belongs to another engine, so it has an open connection
	}
	ctr.dropBinding()
	ctr.transition(CtrWaitReq)
	if len(l.queue) > 0 {
		c := l.queue[0]
		l.queue = l.queue[1:]
		ctr.deliver(c)
		fin(OutcomeSuccess)
		return OutcomeSuccess
	}
	l.waiting = append(l.waiting, waiter{ctr, fin})
	return OutcomeSuccess
}

// CancelRequests ends every pending GetRequest with o. Received requests stay queued.
func (l *Listener) CancelRequests(o Outcome) {
	for _, w := range l.waiting {
		w.connector.transition(CtrIdle)
		w.finish(o)
	}
	l.waiting = nil
}

// CancelRequest ends the pending GetRequest of one connector. It returns false if there is none.
func (l *Listener) CancelRequest(ctr *Connector, o Outcome) bool {
	for i, w := range l.waiting {
		if w.connector == ctr {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			ctr.transition(CtrIdle)
			w.finish(o)
			return true
		}
	}
	return false
}

// Close refuses queued requests, and ends TLS handshakes of others. The endpoint is freed when the last connection made through the
// listener has ended.
func (l *Listener) Close() {
	if l.closed {
		return
	}
	l.closed = true
	l.CancelRequests(OutcomeCanceled)
	for _, c := range l.queue {
		c.listener = nil
		c.withTraffic(func(t *traffic) { t.sendReject(wire.RejectNoListener, nil) })
		c.free()
	}
	l.queue = nil
	if l.shaker != nil {
		for c := range l.engine.group.conns.all {
			if sh := c.end.shaking; sh != nil && sh.listener == l && c.phase == phaseShaking {
				c.endAttempt(wire.RejectNoListener, nil)
			}
		}
	}
	if l.active {
		delete(l.engine.directory.listeners, l.at)
	}
	if l.bound {
		l.engine.directory.ports.Release(l.at)
	}
}

// backed returns the number of requests that count against the backlog.
func (l *Listener) backed() int { return len(l.queue) + l.announced }

// leave makes room in the backlog, because the request was answered or its sender gave up. A nil listener has no backlog.
func (l *Listener) leave(c *conn) {
	if l == nil {
		return
	}
	c.listener = nil
	if l.event != nil {
		l.announced--
		return
	}
	for i, q := range l.queue {
		if q == c {
			l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
			return
		}
	}
}

// request makes a half-open connection for a REQ. If the connection is to be encrypted, its TLS handshake begins, and the listener hears of
// it when a sealed REQ follows.
func (e *Engine) request(l *Listener, p *RxPacket, h wire.BaseHeader, hello *wire.Hello, proven bool) wire.DropReason {
	c := e.newConn(p.To, p.From)
	if c == nil {
		return e.reply(p, e.guard.reject(p, hello, wire.RejectBacklog, e.now))
	}
	c.identity.peerPort = hello.UDPPort
	path, ok := e.link.Reply(p, c.identity.local.Port, c.identity.peerPort)
	if !ok {
		c.free()
		return wire.DropNone // the link has counted the reason
	}
	c.identity.path = path
	c.bind(hello.ConnID, p.From.Port)
	c.identity.nonce = hello.Nonce
	c.identity.localND, c.identity.peerN = hello.DstPort, hello.SrcPort
	c.setShare(guard.ShareHalfOpen)
	c.handshake.Proven, c.handshake.HeardAt = proven, e.now
	if hello.Features&wire.FeatureSecure != 0 {
		return shakeAsServer(c, l, hello)
	}
	c.traffic.received.heard(uint64(h.Number()))
	c.traffic.received.keep()
	return announce(e, l, c, hello)
}

// announce passes the request of a connection to its listener.
func announce(e *Engine, l *Listener, c *conn, hello *wire.Hello) wire.DropReason {
	c.takeOffer(hello)
	c.enter(phaseHalfOpen)
	c.handshake.Private = append([]byte(nil), hello.Private...) // the peer's private data, until Accept replaces them by ours
	e.directory.tuples.Add(c)
	c.handshake.Think(e.now)
	c.touch()
	switch {
	case l.event != nil:
		k := e.NewConnector()
		k.transition(CtrWaitReq)
		k.deliver(c)
		c.listener = l
		l.announced++
		l.event(k)
	case len(l.waiting) > 0:
		w := l.waiting[0]
		l.waiting = l.waiting[1:]
		w.connector.deliver(c)
		w.finish(OutcomeSuccess)
	default:
		c.listener = l
		l.queue = append(l.queue, c)
	}
	return wire.DropNone
}
