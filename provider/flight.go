package provider

import (
	"fmt"
	"io"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is the flight recorder: the last events of an engine, kept for the moment in which a connection is lost. Events are
// what happens beside the moving of data, so that nothing is written for a packet that does what it should.

// flightEvents is how many events an engine keeps: 20 KiB, and under loss on one connection about the last second.
const flightEvents = 512

// maxFlightRecords is how many records an engine hands out in a second. When many connections are lost at once, the first ones say why.
const maxFlightRecords = 4

// FlightKind is what happened.
type FlightKind uint8

// The kinds, and what From and To are.
const (
	FlightState     FlightKind = iota // of a connection on the wire changed: phases
	FlightDrop                        // a packet was not used: the reason, 0
	FlightLoss                        // a packet was taken for lost: 0, its space
	FlightProbe                       // a tail-loss probe was sent
	FlightTimeout                     // a retransmission time-out: time-outs in a row, 0
	FlightSpurious                    // one was undone
	FlightMove                        // a connection left: from engine, to engine
	FlightPath                        // packet size of the path, bytes: before, after
	FlightPause                       // the peer had no receive
	FlightLost                        // the connection was lost: Outcome, 0
	FlightInterface                   // the interface beneath changed: InterfaceChange, what it says
)

var flightNames = [...]string{
	"state", "drop", "loss", "tail probe", "time-out", "time-out undone", "move", "path", "pause", "lost", "interface",
}

// FlightEvent is one event, or several of the same kind that followed each other.
type FlightEvent struct {
	At       clock.Time // of the first
	Last     clock.Time // of the last
	ConnID   uint64     // ours; of a dropped packet, what it said
	From, To uint32
	Count    uint32
	Kind     FlightKind
}

// flightRecorder is the ring of events. It belongs to the engine's owner.
type flightRecorder struct {
	events [flightEvents]FlightEvent
	n      uint64 // events ever
	rate   guard.Bucket
	kept   uint64 // records that the rate held back
}

// note adds an event. One that repeats the newest is counted there, so that a flood of drops leaves the others alone.
func (e *Engine) note(kind FlightKind, id uint64, from, to uint32) {
	f := &e.flight
	if last := &f.events[(f.n-1)%flightEvents]; f.n > 0 && last.Kind == kind && last.ConnID == id && last.From == from && last.To == to {
		last.Count++
		last.Last = e.now
		return
	}
	f.events[f.n%flightEvents] = FlightEvent{At: e.now, Last: e.now, ConnID: id, From: from, To: to, Count: 1, Kind: kind}
	f.n++
}

// enter changes where the connection stands on the wire.
func (c *conn) enter(p phase) {
	c.engine.note(FlightState, c.id, uint32(c.phase), uint32(p))
	c.ask(p)
	c.phase = p
}

// FlightRecord is a copy of an engine's last events, oldest first.
type FlightRecord struct {
	At         clock.Time
	ConnID     uint64  // of the connection that was lost; zero when none is the reason
	Outcome    Outcome // of its first request
	Suppressed uint64  // losses of connections so far for which no record was made
	Events     []FlightEvent
}

// FlightRecord returns the last events. It allocates. The owner calls it.
func (e *Engine) FlightRecord() FlightRecord {
	f := &e.flight
	r := FlightRecord{At: e.now, Suppressed: f.kept}
	for i := f.n - min(f.n, flightEvents); i < f.n; i++ {
		r.Events = append(r.Events, f.events[i%flightEvents])
	}
	return r
}

// recordLoss notes that a connection was lost, and hands the record out if somebody wants it.
func (e *Engine) recordLoss(c *conn, first Outcome) {
	e.note(FlightLost, c.id, uint32(first), 0)
	if e.cfg.OnLost == nil {
		return
	}
	if !e.flight.rate.Allow(e.now, maxFlightRecords) {
		e.flight.kept++
		return
	}
	r := e.FlightRecord()
	r.ConnID, r.Outcome = c.id, first
	e.cfg.OnLost(r)
}

// WriteTo writes the record for people, an event a line, with times relative to the record's.
func (r *FlightRecord) WriteTo(w io.Writer) (int64, error) {
	b := fmt.Appendf(nil, "connection %x lost (%v): the engine's last %d events", r.ConnID, r.Outcome, len(r.Events))
	if r.Suppressed > 0 {
		b = fmt.Appendf(b, "; no record was made of %d losses before", r.Suppressed)
	}
	b = append(b, '\n')
	for i := range r.Events {
		b = r.Events[i].append(b, r.At)
	}
	n, err := w.Write(b)
	return int64(n), err
}

func (v *FlightEvent) append(b []byte, now clock.Time) []byte {
	b = fmt.Appendf(b, "%15v  %-16x  %s", -now.Sub(v.At), v.ConnID, flightNames[v.Kind])
	switch v.Kind {
	case FlightState:
		b = fmt.Appendf(b, " %v -> %v", phase(v.From), phase(v.To))
	case FlightDrop:
		b = fmt.Appendf(b, " %v", wire.DropReason(v.From))
	case FlightLoss:
		b = fmt.Appendf(b, " in %s space", [wire.NumSpaces]string{"request", "response"}[v.To])
	case FlightTimeout:
		b = fmt.Appendf(b, " %d", v.From)
	case FlightMove, FlightPath:
		b = fmt.Appendf(b, " %d -> %d", v.From, v.To)
	case FlightLost:
		b = fmt.Appendf(b, ": %v", Outcome(v.From))
	case FlightInterface:
		b = InterfaceChange(v.From).append(b, v.To)
	case FlightProbe, FlightSpurious, FlightPause:
	}
	if v.Count > 1 {
		b = fmt.Appendf(b, ", %d times in %v", v.Count, v.Last.Sub(v.At).Round(time.Microsecond))
	}
	return append(b, '\n')
}

// noteDrop notes a packet that was not used, under the connection id that it says.
func (e *Engine) noteDrop(p *RxPacket, d wire.DropReason) {
	id := uint64(0)
	if h, short := wire.ParseBaseHeader(p.Frags[0].Data); short == wire.DropNone {
		id = h.ConnID()
	}
	e.note(FlightDrop, id, uint32(d), 0)
}
