package provider

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// conn is one connection. All of it belongs to the engine.
//
// There may be many of them, so fields are in an order that leaves no holes, and what only moving data needs is in traffic.
type conn struct {
	identity
	residence
	*traffic // nil while idle (leaveIdle, enterIdle)
	counters
	places

	connector *Connector // nil once the application let go of it
	qp        *QP        // nil before Accept or Connect and after the end
	listener  *Listener

	handshake *lifetime.Attempt // nil when it is long over
	end       *ending           // notEnding until it ends

	alive  lifetime.Liveness
	idleAt clock.Time // when to see whether it is idle; zero while it is

	rtt  rtt
	wait receiveWait
	mtu  congestion.PathMTU
	idle idleState

	peerWindow uint32 // packets per space the peer holds

	// Sending.
	sendLimit   uint32 // first SEND number the peer does not allow yet
	firstNumber uint32 // packet number of the first packet
	nextMessage uint32
	nextSend    uint32
	nextRead    uint32
	ord, ird    uint32
	peerCE      uint32 // marks that the peer reported last
	peerCEAhead uint32 // marks echoed beside data, which the next report contains

	// Receiving.
	recvSend   uint32 // SEND number being received
	recvOff    uint32 // bytes of it placed
	advertised uint32 // receive limit last told
	promised   uint32 // highest receive limit that the handshake told
	ceCount    uint32 // packets that a router marked

	taken takenBack

	phase      phase
	ecn        wire.ECN    // of sequenced packets: ECT0 when both agreed to it
	share      guard.Share // of its source's budget
	noRequests bool        // flushed: no new requests go out
	ceLast     bool        // the newest packet was marked
	ceEcho     bool        // the peer has to hear of a mark
	tellTaken  bool        // the peer has to hear of taken
}

// counters are what snapshots tell of a connection.
type counters struct {
	openedAt          clock.Time // zero before
	bytesIn, bytesOut uint64     // of ND packets
	retransmits       uint32
}

// places are where a connection stands in its engine's lists.
type places struct {
	behind                    *conn // next in line for transmission
	inActive, inAcks, touched bool
}

// outstandingReads are our READs that the peer has not fully answered, oldest first, as indices of the initiator queue.
type outstandingReads struct {
	seqs  [maxReadLimit]uint32
	head  uint32 // read id of the oldest
	count uint32
	off   uint32 // bytes of the oldest that arrived
	bytes uint64 // asked for by all of them
}

// servedReads are the peer's READs we answer: one slot for each the inbound read limit allows.
type servedReads struct {
	slots [maxReadLimit]readSlot
	head  uint32 // read id of the oldest not fully acknowledged
	next  cursor // next byte to send: read id and offset
	tail  uint32 // read id the peer uses next
}

type readSlot struct {
	addr    uint64
	length  uint32
	token   Token
	lastPSN wire.PSN
}

// cursor is a place in a sequence of messages: a message and a byte in it.
type cursor struct{ seq, off uint32 }

// sendSpace is our side of one sequence space.
type sendSpace struct {
	next, una wire.PSN   // next new PSN; oldest not acknowledged
	inFlight  int        // sent, and neither acknowledged nor taken for lost
	lost      int        // taken for lost and not sent again
	sacked    int        // acknowledged beyond una
	records   []txRecord // a ring of shortFlight or Window; nil before the first packet
}

// txRecord remembers what a packet in flight carried, so that it can be built again.
type txRecord struct {
	at       clock.Time
	number   uint64 // of its newest transmission
	from, to cursor
	size     uint16 // of the operations as they were first sent, and always are unless they go in parts
	state    recordState
	losses   uint8 // times that it was taken for lost
	part     uint8 // in parts: the next one to send,
	left     uint8 // and how many are to be sent before this repetition is over; zero when none is under way
}

type recordState uint8

const (
	recSacked recordState = 1 << iota
	recLost
	recRefused // the peer dropped it for lack of a receive
)

func (s *sendSpace) record(psn wire.PSN) *txRecord { return &s.records[int(psn)&(len(s.records)-1)] }

// outstanding is the number of PSNs from the oldest that the peer has not acknowledged.
func (s *sendSpace) outstanding() uint32 { return uint32(s.next - s.una) }

// recvSpace is the peer's side of one sequence space. Bit i of bits says that PSN next+1+i arrived.
type recvSpace struct {
	next  wire.PSN
	bits  [Window / 64]uint64
	holes bool                // some bit is set
	held  *[Window]heldPacket // taken at the first gap
}

func (s *recvSpace) has(i uint32) bool { return s.bits[i/64]&(1<<(i%64)) != 0 }

func (s *recvSpace) set(i uint32) {
	s.bits[i/64] |= 1 << (i % 64)
	s.holes = true
}

// advance moves next by one.
func (s *recvSpace) advance() {
	s.next++
	if !s.holes {
		return
	}
	any := uint64(0)
	for i := range s.bits {
		s.bits[i] >>= 1
		if i+1 < len(s.bits) {
			s.bits[i] |= s.bits[i+1] << 63
		}
		any |= s.bits[i]
	}
	s.holes = any != 0
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
	c := &conn{residence: residence{engine: e}, end: &notEnding, identity: identity{slot: slot, local: local, remote: remote}, handshake: new(lifetime.Attempt)}
	c.alive.Heard(e.now)
	c.home.Store(e)
	for c.id == 0 {
		c.id = table.idOf(slot, e.rng.Uint64())
	}
	c.leaveIdle()
	for sp := range c.tx {
		first := wire.PSN(e.rng.Uint32())
		c.tx[sp].next, c.tx[sp].una = first, first
	}
	c.firstNumber = e.rng.Uint32() >> 1
	c.sent.Start(uint64(c.firstNumber), uint64(c.firstNumber), c.sent.Ring())
	c.local.Port = wire.SourcePort(c.id)
	table.put(slot, c)
	e.stats.Connections++
	return c
}

// bind fixes the peer's id, and the UDP source port that it was said from (PROTOCOL §6.1).
func (c *conn) bind(peerID uint64, port uint16) {
	c.peerID = peerID
	c.engine.directory.peers.add(c)
	c.remote.Port = port
}

// open lets data flow.
func (c *conn) open() {
	c.enter(phaseOpen)
	c.openedAt = c.engine.now
	c.setShare(guard.ShareEstablished)
	c.recovery.progressAt = c.engine.now
	c.engine.stats.Established++
}

// free gives the slot back. Nothing refers to the connection afterwards but the application's connector.
func (c *conn) free() {
	e := c.engine
	if e.group.conns.at(c.slot) != c {
		return
	}
	c.endProof()
	c.enter(phaseFree)
	c.setShare(guard.ShareNone)
	c.dropHeld()
	e.directory.tuples.remove(c)
	e.directory.peers.remove(c)
	c.leaveBacklog()
	if c.connector != nil {
		c.connector.conn = nil
		c.connector = nil
	}
	if c.path != 0 {
		e.forget(c.path)
		c.path = 0
	}
	e.timers.deadlines.Set(c.slot, clock.Never)
	e.group.conns.give(c.slot)
	e.stats.Connections--
	c.touch() // its traffic is given back at the end of the turn, when nobody is in the middle of it
}

// forget gives back a connection that still answered.
func (c *conn) forget() {
	c.engine.stats.Forgotten++
	c.free()
}

// setShare moves the connection to another part of its source's budget. Connections that we asked for are nobody's share.
func (c *conn) setShare(s guard.Share) {
	if c.active || c.share == s {
		return
	}
	c.engine.guard.Sources.Move(guard.SourceOf(c.remote.IP), c.share, s)
	c.share = s
}

// dropHeld gives back every packet that waited behind a gap, and what arrived in parts.
func (c *conn) dropHeld() {
	if c.traffic == nil {
		return
	}
	c.dropParts()
	for sp := range c.rx {
		rs := &c.rx[sp]
		if rs.held == nil {
			continue
		}
		for i, h := range rs.held {
			if h != 0 {
				c.engine.releaseHeld(h)
				rs.held[i] = 0
			}
		}
	}
}

// touch makes the engine look at the connection's deadline at the end of the turn.
func (c *conn) touch() { c.engine.timers.touch(c) }
