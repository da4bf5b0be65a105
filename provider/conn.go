package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// conn is one connection. All of it belongs to the engine.
//
// There may be many of them, so fields are in an order that leaves no holes, and what only moving data needs is in traffic.
type conn struct {
	engine    *Engine                    // home as the owner sees it
	home      interleave.Pointer[Engine] // engine that owns it; nil while it moves
	misrouted misrouted                  // packets that arrived on another engine's queue
	places    places

	identity  identity
	counters  counters
	connector *Connector // nil once the application let go of it
	listener  *Listener
	qp        *QP // nil before Accept or Connect and after the end

	alive     lifetime.Liveness
	handshake *lifetime.Attempt // nil when it is long over
	end       *ending           // notEnding until it ends

	// The path and the peer's receives, which a connection knows while it is idle, too.
	requestNumbers requestNumbers
	rtt            recovery.RTT
	mtu            congestion.PathMTU
	receives       credit.Receiver
	marks          recovery.Marks
	peerWindow     uint32 // bytes of packets that the peer holds behind a gap
	ird            uint32 // READs that the peer may have outstanding
	phase          phase  // only conn.enter writes it
	joins          bool   // both ends agreed to runs
	long           bool   // both ends agreed to long packets
	ecn            recovery.ECN

	wanted   wants // of the engine, until the work under way is over
	faulted  fault
	why      Cause  // it is about to end
	bulkPort uint16 // UDP port of the peer's bulk lane, when both ends agreed to it; else zero

	traffic *traffic   // nil while idle (leaveIdle, enterIdle)
	idleAt  clock.Time // when to see whether it is idle; zero while it is
	idle    idleState
}

// counters are what snapshots tell of a connection.
type counters struct {
	openedAt          clock.Time // zero before
	bytesIn, bytesOut uint64     // of ND packets
	retransmits       uint32
}

// places are where a connection stands in the lists of its engine and its leader.
type places struct {
	behind                    *conn // next in line for transmission
	nextTuple                 *conn // in directory.tuples
	nextPeer                  *conn // in directory.peers
	inActive, inAcks, touched bool
	inHeard                   bool
	share                     guard.Share // of its source's budget
}

// newConn takes a slot of the connection table. It returns nil when the table is full.
func (e *Engine) newConn(local, remote wire.Endpoint) *conn {
	table, limit := &e.group.conns, uint32(e.cfg.MaxConns)
	if table.full(limit) {
		table.makeRoom()
	}
	slot, ok := table.alloc(limit)
	if !ok {
		return nil
	}
	c := &conn{engine: e, identity: identity{slot: slot, local: local, remote: remote}, end: &notEnding, handshake: new(lifetime.Attempt)}
	c.alive.Heard(e.now)
	c.home.Store(e)
	for c.identity.id == 0 {
		c.identity.id = table.idOf(slot, e.rng.Uint64())
	}
	c.leaveIdle()
	c.identity.firstNumber = max(e.rng.Uint32()>>1, 1) // zero is that of packets outside a connection
	c.traffic.sent.packets.Start(uint64(c.identity.firstNumber), uint64(c.identity.firstNumber), c.traffic.sent.packets.Ring())
	c.identity.local.Port = wire.SourcePort(c.identity.id)
	table.put(slot, c)
	e.stats.Connections++
	return c
}

// bind fixes the peer's id, and the UDP source port that it was said from (PROTOCOL §6.1).
func (c *conn) bind(peerID uint64, port uint16) {
	c.identity.peerID = peerID
	c.engine.directory.peers.Add(c)
	c.identity.remote.Port = port
}

// open lets data flow.
func (c *conn) open() {
	c.enter(phaseOpen)
	c.counters.openedAt = c.engine.now
	c.setShare(guard.ShareEstablished)
	c.traffic.sent.loss.Restart(c.engine.now)
	c.engine.stats.Established++
}

// free gives the slot back. Nothing refers to the connection afterwards but the application's connector.
func (c *conn) free() {
	e := c.engine
	if e.group.conns.at(c.identity.slot) != c {
		return
	}
	c.endProof()
	endShaking(c)
	c.enter(phaseFree)
	c.setShare(guard.ShareNone)
	if c.traffic != nil {
		c.traffic.received.dropHeld(&e.store)
	}
	e.directory.tuples.Remove(c)
	e.directory.peers.Remove(c)
	c.listener.leave(c)
	if c.connector != nil {
		c.connector.conn = nil
		c.connector = nil
	}
	if c.identity.path != 0 {
		e.forget(c.identity.path)
		c.identity.path = 0
	}
	forgetBulk(c)
	e.timers.deadlines.Set(c.identity.slot, clock.Never)
	e.group.conns.give(c.identity.slot)
	e.stats.Connections--
	if c.traffic == nil {
		restKeys(c)
	}
}

// setShare moves the connection to another part of its source's budget. Connections that we asked for are nobody's share.
func (c *conn) setShare(s guard.Share) {
	if c.identity.active || c.places.share == s {
		return
	}
	c.engine.guard.Sources.Move(guard.SourceOf(c.identity.remote.IP), c.places.share, s)
	c.places.share = s
}

// touch makes the engine look at the connection's deadline at the end of the turn.
func (c *conn) touch() {
	if !c.places.touched {
		c.places.touched = true
		c.engine.timers.touched = append(c.engine.timers.touched, c)
	}
}

// identity is who the two ends of a connection are. It is fixed once both ids are known, but for the peer's UDP port (path.go).
type identity struct {
	id, peerID     uint64
	nonce          uint64        // of the REQ
	slot           uint32        // in the connection table
	local, remote  wire.Endpoint // addresses and UDP ports: ours as the peer sees it, the peer's as we see it
	localND, peerN uint16        // ND ports
	peerPort       uint16        // the UDP port that the peer receives on; before its REP arrived, the destination port of REQs
	peerToken      [wire.ResetTokenLen]byte
	active         bool       // we sent the REQ
	sealed         wire.Flags // wire.FlagSecure if the connection is encrypted, else zero
	path           Path       // between them, of the engine's link
	firstNumber    uint32     // of our packets
}

// tuple identifies a connection by its ND addresses and ports.
type tuple struct{ local, remote addrPort }

// tuple names the connection by its ND endpoints.
func (i *identity) tuple() tuple {
	return tuple{addrPort{IP: i.local.IP, Port: i.localND}, addrPort{IP: i.remote.IP, Port: i.peerN}}
}

// destination returns where packets of the connection go.
func (i *identity) destination() wire.Endpoint {
	return wire.Endpoint{IP: i.remote.IP, Port: i.peerPort}
}

// peerKey names a connection as its peer does.
type peerKey struct {
	ip [16]byte
	id uint64
}

func (i *identity) peerKey() peerKey { return peerKey{i.remote.IP, i.peerID} }

// asked is an unanswered REQ as even the shortest quote names it: where it went, and the UDP port that it came from.
type asked struct {
	to   [16]byte
	from uint16
}

func (i *identity) asked() asked { return asked{i.remote.IP, i.local.Port} }

// unanswered reports whether the peer has not answered our REQ, so that its id is unknown.
func (i *identity) unanswered() bool { return i.active && i.peerID == 0 }

// isAnswer reports whether a REP answers our REQ.
func (i *identity) isAnswer(h *wire.Hello) bool { return usable(h) && h.Nonce == i.nonce }

// quoted reports whether an ICMP error quotes our REQ.
func (i *identity) quoted(q *Quote, quote *wire.Quote) bool {
	return i.active && i.remote.IP == q.To.IP && i.local.IP == q.From.IP &&
		(quote.HasNonce && quote.Nonce == i.nonce || !quote.HasNonce && i.local.Port == q.From.Port)
}

// phase is where a connection stands on the wire; package lifetime says what may follow what.
type phase = lifetime.Phase

const (
	phaseFree      = lifetime.Free
	phaseReqSent   = lifetime.ReqSent
	phaseAccepted  = lifetime.Accepted
	phaseRtuSent   = lifetime.RtuSent
	phaseHalfOpen  = lifetime.HalfOpen
	phaseRepSent   = lifetime.RepSent
	phaseOpen      = lifetime.Open
	phaseLingering = lifetime.Lingering
	phaseShaking   = lifetime.Shaking
)

// enter changes where the connection stands on the wire, and tells who counts that. A phase that may not follow is counted and refused. Each
// phase has deadlines of its own. The traffic of a connection that is over is given back at the end of the turn, when no work on it is
// under way.
func (c *conn) enter(p phase) {
	e, from := c.engine, c.phase
	c.touch()
	if !c.phase.Enter(p) {
		e.stats.IllegalTransitions++
		return
	}
	e.flight.Note(e.now, FlightState, c.identity.id, uint32(from), uint32(p))
	switch {
	case from == phaseOpen:
		e.limitTotals.Exit(e.now, c.traffic.limit())
	case p == phaseOpen:
		e.limitTotals.Enter(e.now, c.traffic.limit())
	}
	switch {
	case (p == phaseReqSent || p == phaseShaking) && c.identity.unanswered():
		e.directory.ask(c)
	case from == phaseReqSent || from == phaseShaking:
		e.directory.answered(c)
		c.handshake.ForgetLeft(e.forget)
	}
}
