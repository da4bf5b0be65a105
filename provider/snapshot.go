package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/wire"
)

// ConnInfo describes one connection at one moment.
type ConnInfo struct {
	ID, PeerID              uint64
	Local, Remote           Endpoint // IP addresses and ND ports
	Engine                  int      // index of its engine, which is also the NIC queue
	State, BulkLane         string   // State: connecting, open or closing. BulkLane: proven or unproven; empty without a bulk path and while idle
	Active                  bool     // this side requested the connection
	Age                     time.Duration
	SmoothedRTT, MinRTT     time.Duration // zero before the first sample
	PathMTU                 int           // largest ND packet known to reach the peer, in bytes
	Window                  int           // packets that may be in flight: the smaller of the two windows
	FabricWindow            int           // congestion window in packets
	EndpointWindow          int           // window of the receiver in packets
	InFlight                int           // packets
	BytesIn, BytesOut       uint64        // of ND packets
	Retransmits             uint64
	InitiatorDepth          int // requests posted and not complete
	ReceiveDepth            int // receives posted and not complete, of the shared queue if there is one
	OutstandingReads        int
	LimitedBy               Limit                    // present limit
	Limited                 [NumLimits]time.Duration // time under each limit; the sum is Age while the connection is open
	Latency                 Latency
	Resting, ReceivesShared bool

	// Of an encrypted connection: its cipher suite (zero for a plain one), the state of its handshake as of Connector.TLS, the present
	// key generations, and packets with a wrong tag.
	Suite                       uint16
	TLS                         any
	GenerationOut, GenerationIn uint32
	Forged                      uint64
}

// Connections copies connections of the engine into dst, beginning with slot first. It returns how many it copied, and the slot to
// continue with. done means that there are no more. A caller with many connections makes several calls and releases the engine in
// between. The engine's owner calls it.
func (e *Engine) Connections(dst []ConnInfo, first int) (n, next int, done bool) {
	slots := *e.group.conns.slots.Load()
	for next = first; next < len(slots) && n < len(dst); next++ {
		if next-first == maxSlotsLooked {
			return n, next, false
		}
		if c := slots[next].Load(); c != nil && c.home.Load() == e {
			c.describe(&dst[n])
			n++
		}
	}
	return n, next, next >= len(slots)
}

// maxSlotsLooked bounds the time of one call of Connections, because most slots may be empty or belong to other engines.
const maxSlotsLooked = 4096

// describe fills info.
func (c *conn) describe(info *ConnInfo) {
	e := c.engine
	local, remote := c.identity.local, c.identity.remote
	local.Port, remote.Port = c.identity.localND, c.identity.peerN
	*info = ConnInfo{
		ID: c.identity.id, PeerID: c.identity.peerID, Local: local, Remote: remote, Engine: e.index, Active: c.identity.active, State: c.phase.Stage(),
		SmoothedRTT: c.rtt.Smoothed, MinRTT: c.rtt.Min, PathMTU: int(c.mtu.Packet), BytesIn: c.counters.bytesIn, BytesOut: c.counters.bytesOut,
		Retransmits: uint64(c.counters.retransmits), Resting: c.traffic == nil, LimitedBy: c.traffic.limit(),
	}
	var times *trace.LimitTimes
	if t := c.traffic; t != nil {
		times = &t.limitTimes
		cc, packet := &t.sent.cc, max(int(c.mtu.Packet), wire.MinPacket)
		info.Window, info.FabricWindow, info.EndpointWindow = cc.Window/packet, cc.NetworkWindow()/packet, cc.EndpointWindow()/packet
		info.InFlight = c.traffic.sent.packets.PacketsInFlight()
		info.OutstandingReads = int(t.requests.reads.Waiting())
		info.Latency = t.sent.sample.Latency()
		info.BulkLane = t.sent.bulk.State(c.bulkPort != 0)
	}
	if c.phase == phaseOpen {
		info.Age = e.now.Sub(c.counters.openedAt)
		info.Limited = c.idle.limited.Shares(info.Age, times, e.now)
	}
	if k := c.end.keys; k != nil {
		info.Suite, info.GenerationOut, info.GenerationIn, info.Forged = uint16(k.Out.Suite()), k.Out.Generation(), k.In.Generation(), k.In.Forged()
		if c.connector != nil {
			info.TLS = c.connector.TLS()
		}
	}
	if qp := c.qp; qp != nil {
		info.InitiatorDepth, info.ReceiveDepth = qp.Outstanding(), int(qp.rq.waiting())
		if qp.srq != nil {
			info.ReceivesShared = true
			info.ReceiveDepth += int(qp.srq.free.Load())
		}
		info.Latency.Completion = qp.initCQ.FetchLatency()
	}
}

// FlightRecord returns the engine's last events. It allocates. The owner calls it.
func (e *Engine) FlightRecord() FlightRecord { return e.flight.Record(e.now) }

// InterfaceChanged notes in the flight recorder what happened to the interface beneath. The owner calls it.
func (e *Engine) InterfaceChanged(c InterfaceChange, value uint32) {
	e.flight.Note(e.now, FlightInterface, 0, uint32(c), value)
}

// FramesHeld returns the number of transmit frames of the link that the engine caches between polls. The engine's owner calls it.
func (e *Engine) FramesHeld() (transmit int) { return e.out.Frames() }

// Stats returns the counters. The engine's owner calls it.
func (e *Engine) Stats() Stats {
	s, sent := e.stats, e.out.Counts()
	s.PacketsOut, s.BytesOut, s.NoFrames = sent.Packets, sent.Bytes, sent.NoFrames
	s.Limited = e.limitTotals.Micros(e.now)
	s.RequestsDone, s.RequestBytes = e.results.Done, e.results.Bytes
	return s
}

// Notifications returns the number of pending NotifyDisconnect calls. The engine's owner calls it.
func (k *Connector) Notifications() int { return k.notify.Len() }

// Waiting returns the number of pending notifications.
func (s *SharedReceiveQueue) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.low.Len()
}

// Aborted reports whether the peer gave up or withdrew; the next call returns it. The engine's owner calls it.
func (k *Connector) Aborted() bool { return k.aborted != OutcomeSuccess }

// Queued returns the number of requests that were not fetched. The engine's owner calls it.
func (l *Listener) Queued() int { return len(l.queue) }
