package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
)

// The names of package trace that upper layers use.
type (
	// Stats counts what an engine did. All counts are totals since the engine was made, except Connections.
	Stats = trace.Stats
	// Limit is what keeps a connection from sending more now.
	Limit = trace.Limit
	// Latency is where the time of initiator requests goes.
	Latency = trace.Latency
	// FlightRecord is a copy of an engine's last events, oldest first.
	FlightRecord = trace.FlightRecord
	// FlightEvent is one event, or several of the same kind that followed each other.
	FlightEvent = trace.FlightEvent
	// InterfaceChange is what happened to the interface beneath a link, in an event of the flight recorder.
	InterfaceChange = trace.InterfaceChange
)

// The limits, the kinds of events and the changes of an interface; package trace says what each one means.
const (
	LimitApplication       = trace.LimitApplication
	LimitReceive           = trace.LimitReceive
	LimitRead              = trace.LimitRead
	LimitFabric            = trace.LimitFabric
	LimitEndpoint          = trace.LimitEndpoint
	LimitRing              = trace.LimitRing
	LimitCPU               = trace.LimitCPU
	NumLimits              = trace.NumLimits
	NumLatencies           = trace.NumLatencies
	FlightState            = trace.FlightState
	FlightDrop             = trace.FlightDrop
	FlightLoss             = trace.FlightLoss
	FlightProbe            = trace.FlightProbe
	FlightTimeout          = trace.FlightTimeout
	FlightSpurious         = trace.FlightSpurious
	FlightMove             = trace.FlightMove
	FlightPath             = trace.FlightPath
	FlightBulk             = trace.FlightBulk
	FlightPause            = trace.FlightPause
	FlightECN              = trace.FlightECN
	FlightLost             = trace.FlightLost
	FlightInterface        = trace.FlightInterface
	InterfaceUp            = trace.InterfaceUp
	InterfaceDown          = trace.InterfaceDown
	InterfaceMTU           = trace.InterfaceMTU
	InterfaceMAC           = trace.InterfaceMAC
	InterfaceMaster        = trace.InterfaceMaster
	InterfaceLower         = trace.InterfaceLower
	InterfaceQueues        = trace.InterfaceQueues
	InterfaceNeighbour     = trace.InterfaceNeighbour
	InterfaceNeighbourLost = trace.InterfaceNeighbourLost
	InterfaceRoute         = trace.InterfaceRoute
	InterfaceNoRoute       = trace.InterfaceNoRoute
	InterfaceResync        = trace.InterfaceResync
	InterfaceEnded         = trace.InterfaceEnded
)

// LatencyBound returns the longest time of a class of Stats.Latencies.
func LatencyBound(class int) time.Duration { return trace.LatencyBound(class) }

// DropNames returns the names of all reasons for which an engine drops a packet.
func DropNames() []string { return trace.DropNames() }

// FlightRecord returns the engine's last events. It allocates. The owner calls it.
func (e *Engine) FlightRecord() FlightRecord { return e.flight.Record(e.now) }

// InterfaceChanged notes in the flight recorder what happened to the interface beneath. The owner calls it.
func (e *Engine) InterfaceChanged(c InterfaceChange, value uint32) {
	e.flight.Note(e.now, FlightInterface, 0, uint32(c), value)
}

// endSample records that the request at seq, which was watched, is done.
func (t *traffic) endSample(seq uint32) {
	e, q := t.engine, &t.conn.qp.sq
	wr, last := q.wr(seq), clock.Time(0)
	for n, end := t.sent.packets.Floor(), space.At(seq+1, 0); n != t.sent.packets.Next(); n++ {
		if p := t.sent.packets.Packet(n); p.Kind == recovery.Requests && p.From.Before(end) && !p.To.Before(end) {
			last = p.At
		}
	}
	t.engine.stats.Took(t.sent.sample.End(e.now, &q.sample, last))
	if wr.flags&FlagSilentSuccess == 0 {
		t.conn.qp.initCQ.Measure(e.out.Clock, e.now)
	}
}
