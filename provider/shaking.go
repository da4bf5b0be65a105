package provider

import (
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/provider/internal/shake"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/wire"
)

// This file carries the bytes of TLS handshakes (PROTOCOL §10.2). A Shaker computes them on goroutines of its own, and its steps come
// through the inbox of the leading engine, where every connection is before it is open.

const (
	// shakeTime is how long a handshake may take in all, so that a peer that sends a byte a second does not keep it.
	shakeTime = 10 * time.Second
	// maxKeptEarly is how many packets of generation 0 wait for their key. They follow the ServerHello at once, and the keys come from a
	// goroutine. maxKept is the same for generation 1. The sealed REQ overtakes the verification of the bytes before it.
	maxKeptEarly = 8
	maxKept      = 2
)

// Alerts of errors that the engine finds (RFC 8446 §6).
const (
	alertIllegalParameter = 47
	alertInternalError    = 80
)

// shaking is the TLS handshake of a connection.
type shaking struct {
	handshake Shaking
	bytes     shake.Exchange
	early     *secure.Keys     // of generation 0, nil before they are known, and after the passive end is done
	next      [2]secure.Secret // of generation 1, out and in
	mine      wire.Params      // what this side says in plain
	peers     wire.Params      // what the peer said in plain
	params    []byte           // what the peer says in the handshake
	listener  *Listener        // passive: whose configuration verifies the peer
	until     clock.Time       // when the handshake is given up
	opened    bool             // a packet of generation 0 opened, so packets in plain do not count
	done      bool             // the keys of generation 1 are there, and the peer is verified
	state     any              // with done
	kept      []RxPacket       // packets whose key is not there yet
}

// shakeAsClient begins the handshake of a connector. The first REQ leaves when the ClientHello is there.
func shakeAsClient(c *conn, s Shaker) {
	sh := beginShaking(c)
	c.enter(phaseShaking)
	c.handshake.Begin(c.engine.now)
	sh.begin(c, s)
}

// shakeAsServer begins the handshake of a listener, for the first REQ of a peer.
func shakeAsServer(c *conn, l *Listener, hello *wire.Hello) wire.DropReason {
	said := *hello                        // its memory is that of offers
	c.handshake.Sent = 3 * wire.MinPacket // the bytes of this REQ are credited below
	sh := beginShaking(c)
	sh.listener, sh.mine.PeerID, sh.peers = l, c.identity.peerID, shake.ParamsOf(&said)
	c.enter(phaseShaking)
	c.handshake.Begin(c.engine.now)
	sh.begin(c, l.shaker)
	return takeHello(c, &said)
}

// beginShaking makes the connection one that is encrypted.
func beginShaking(c *conn) *shaking {
	c.identity.sealed = wire.FlagSecure
	sh := &shaking{until: c.engine.now.Add(shakeTime), mine: shake.ParamsOf(offer(c, wire.CtlREQ))}
	c.ending().shaking = sh
	return sh
}

func (sh *shaking) begin(c *conn, s Shaker) {
	e, at := c.engine, c.identity.tuple()
	sh.handshake = s.Begin(at.local, at.remote, sh.mine.Append(nil), func(step *ShakeStep) {
		e.inbox.call(func(*Engine) {
			if c.end.shaking == sh {
				sh.onStep(c, step)
			}
			step.Erase()
		})
	})
}

// endShaking ends a handshake in any state. If it is not done, what the connection says last is sealed with generation 0, if the keys are
// there. A peer that lost the ServerHello has no keys, so a REJ also leaves in plain.
func endShaking(c *conn) {
	sh := c.end.shaking
	if sh == nil {
		return
	}
	c.end.shaking = nil
	sh.handshake.Close()
	if !sh.done {
		c.engine.stats.HandshakesFailed++
		c.end.untold = !c.identity.active && sh.early != nil && !sh.opened && !sh.bytes.Told()
		c.end.keys, sh.early = sh.early, nil
	}
	sh.dropEarly(c.engine)
	sh.bytes.Erase()
	for i := range sh.next {
		sh.next[i].Erase()
	}
}

// dropEarly forgets the keys of generation 0.
func (sh *shaking) dropEarly(e *Engine) {
	if k := sh.early; k != nil {
		e.pools.windows.Put(k.In.Sleep())
		k.Erase()
		sh.early = nil
	}
}

// onStep takes a result of the handshake.
func (sh *shaking) onStep(c *conn, step *ShakeStep) {
	e := c.engine
	if step.Err != nil {
		sh.fail(c, step.Err, step.Alert)
		return
	}
	for i, s := range [2]*secure.Secret{&step.Out[1], &step.In[1]} {
		if s.Suite() != 0 {
			sh.next[i] = *s
		}
	}
	if step.Params != nil {
		sh.params = step.Params
	}
	most := shake.MaxLevel
	if c.identity.unanswered() {
		most = shake.MaxHello
	}
	if !sh.bytes.Write(step.Initial, step.Handshake, most) {
		sh.fail(c, fmt.Errorf("the TLS handshake has too many bytes: a ClientHello has at most %d, and certificates at most %d", shake.MaxHello, shake.MaxLevel), alertInternalError)
		return
	}
	if step.Out[0].Suite() != 0 && step.In[0].Suite() != 0 {
		sh.early = newKeys(e, 0, &step.Out[0], &step.In[0])
	}
	if step.Done {
		if sh.finish(c, step) {
			sh.onDone(c)
		}
		return
	}
	if len(step.Initial)+len(step.Handshake) > 0 {
		c.handshake.Begin(e.now)
	}
	c.withTraffic(func(t *traffic) { sh.send(t) })
	c.touch()
	sh.deliverKept(c)
}

// newKeys returns keys of a generation of the handshake, or nil if the process may not use the cipher any more.
func newKeys(e *Engine, generation uint32, out, in *secure.Secret) *secure.Keys {
	k := &secure.Keys{Limits: &e.cfg.KeyLimits}
	w := e.pools.getWindow()
	if k.Out.Install(generation, out, e.now) != nil || k.In.Install(generation, in, w, k.Limits, e.now) != nil {
		e.pools.windows.Put(w)
		return nil
	}
	return k
}

// finish takes the last step: the peer is verified, and its parameters can be trusted.
func (sh *shaking) finish(c *conn, step *ShakeStep) bool {
	e := c.engine
	if !shake.Agree(sh.params, sh.mine, sh.peers, c.identity.active) {
		sh.fail(c, fmt.Errorf("the TLS handshake failed: somebody changed what the peer said before it"), alertIllegalParameter)
		return false
	}
	keys := newKeys(e, 1, &sh.next[0], &sh.next[1])
	if keys == nil {
		sh.fail(c, fmt.Errorf("the TLS handshake failed: the process may not use its cipher"), alertInternalError)
		return false
	}
	c.end.keys, sh.done, sh.state = keys, true, step.State
	e.stats.Handshakes++
	e.flight.Note(e.now, FlightTLS, c.identity.id, uint32(trace.TLSDone), uint32(sh.next[0].Suite()))
	sh.handshake.Close()
	return true
}

// onDone goes on with the connection when the handshake is done.
func (sh *shaking) onDone(c *conn) {
	e := c.engine
	if c.identity.active {
		if k := c.connector; k != nil {
			k.secured().state = sh.state
		}
		c.withTraffic(func(t *traffic) { sh.send(t) })
		c.enter(phaseReqSent)
		c.handshake.Begin(e.now)
		c.sendHello(wire.CtlREQ)
		return
	}
	sh.dropEarly(e) // the peer has all of our bytes, and its own arrived
	c.handshake.Begin(e.now)
	c.touch()
	sh.deliverKept(c)
}

// deliverKept brings the packets that waited for a key. A packet whose key is still missing waits on.
func (sh *shaking) deliverKept(c *conn) {
	e, kept := c.engine, sh.kept
	sh.kept = nil
	for i := range kept {
		h := wire.BaseHeader(kept[i].Frags[0].Data[:wire.BaseHeaderLen])
		if d, _ := e.deliver(c, &kept[i], h); d != wire.DropNone {
			e.stats.Drop(d)
		}
	}
}

// fail ends the attempt because the handshake failed on this side.
func (sh *shaking) fail(c *conn, err error, alert uint8) {
	c.engine.flight.Note(c.engine.now, FlightTLS, c.identity.id, uint32(trace.TLSFailed), uint32(alert))
	c.detachQP()
	if k := c.connector; k != nil {
		k.secured().failure = &TLSFailure{Err: err, Alert: alert}
		k.onAttemptFailed(OutcomeAborted)
	}
	c.endAttempt(wire.RejectTLS, []byte{alert})
}

// onSealedREQ takes the REQ that follows the handshake: now the listener hears of the request.
func onSealedREQ(c *conn, body []byte) wire.DropReason {
	e, sh := c.engine, c.end.shaking
	if c.phase != phaseShaking {
		return c.repeatAnswer()
	}
	hello := &e.hello.Hello
	if d := wire.ParseHello(body, hello); d != wire.DropNone {
		return d
	}
	if mine := shake.ParamsOf(hello); hello.ConnID != c.identity.peerID || mine.Nonce != sh.peers.Nonce || mine.SrcPort != sh.peers.SrcPort || mine.DstPort != sh.peers.DstPort || !usable(hello) {
		return wire.DropAddress
	}
	l := e.directory.listener(c.identity.tuple().local)
	if l != sh.listener || l.paused {
		c.endAttempt(wire.RejectNoListener, nil) // the peer was verified for another listener
		return wire.DropNoListener
	}
	if len(l.waiting) == 0 && l.backed() >= l.backlog {
		if l.backlog != guard.MaxBacklog {
			c.endAttempt(wire.RejectBacklog, nil)
		}
		return wire.DropBacklog
	}
	if rival := e.directory.tuples.Find(c.identity.tuple()); rival != nil {
		return contestLate(c, rival)
	}
	c.handshake.Answered(e.now)
	return announce(e, l, c, hello)
}

// contestLate makes the connection that has the ND endpoints of this attempt prove that it is alive (proof.go). The peer repeats its
// REQ meanwhile.
func contestLate(c, rival *conn) wire.DropReason {
	e := c.engine
	alive := rival.home.Load() == e && !rival.mayBeContested()
	if !alive {
		if d := e.onHomeOf(rival, (*conn).contested); d != wire.DropNone {
			return d
		}
		alive = e.group.isAlive(rival)
	}
	if alive {
		c.endAttempt(wire.RejectExists, nil)
	}
	return wire.DropState
}

// shakeAgain repeats what the peer does not have of the handshake, when the timer of the attempt is due.
func shakeAgain(c *conn) {
	if sh := c.end.shaking; sh != nil {
		c.withTraffic(func(t *traffic) { sh.repeat(t) })
	}
}

// shakeUntil returns when the handshake of a connection is over its time, or Never. The active end waits until its peer is done.
func shakeUntil(c *conn) clock.Time {
	if sh := c.end.shaking; sh != nil && (c.phase == phaseShaking || c.phase == phaseReqSent) {
		return sh.until
	}
	return clock.Never
}

// shakeTimedOut ends a handshake that takes too long. A passive end says nothing, because the peer's address may not be proven. The peer has
// a time-out of its own.
func shakeTimedOut(c *conn) {
	if c.identity.active {
		c.attemptFailed(OutcomeIOTimeout)
	} else {
		c.linger(lifetime.Nothing, 0, nil)
	}
}
