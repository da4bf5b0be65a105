package trace

import (
	"fmt"
	"io"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/bulk"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is the flight recorder: the last events of an engine, kept for the moment when a connection is lost. Ordinary packets are no
// events, so moving data records nothing.

// flightEvents is how many events an engine keeps: 20 KiB, and under loss on one connection about the last second.
const flightEvents = 512

// MaxFlightRecords is how many records an engine hands out in a second. When many connections are lost at once, the first ones say why.
const MaxFlightRecords = 4

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
	FlightBulk                        // the bulk path: 1 when it was proven, and the size, bytes; 0 when it was left, and why, a bulk.Cause
	FlightInterface                   // the interface beneath changed: InterfaceChange, what it says
	FlightECN                         // packets can be marked, or not: recovery.ECNChange, 0
)

var flightNames = [...]string{
	"state", "drop", "loss", "tail probe", "time-out", "time-out undone", "move", "path", "pause", "lost", "bulk lane", "interface", "ECN",
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

// Recorder is the ring of events. It belongs to the engine's owner.
type Recorder struct {
	events [flightEvents]FlightEvent
	n      uint64 // events ever
	rate   guard.Bucket
	kept   uint64   // records that the rate held back
	states []string // names of what FlightState tells
}

// NewRecorder makes an empty one. states are the names of a connection's phases, by number.
func NewRecorder(states []string) *Recorder { return &Recorder{states: states} }

// Note adds an event. One that repeats the newest is counted there, so that a flood of drops leaves the others alone.
func (f *Recorder) Note(now clock.Time, kind FlightKind, id uint64, from, to uint32) {
	if last := &f.events[(f.n-1)%flightEvents]; f.n > 0 && last.Kind == kind && last.ConnID == id && last.From == from && last.To == to {
		last.Count++
		last.Last = now
		return
	}
	f.events[f.n%flightEvents] = FlightEvent{At: now, Last: now, ConnID: id, From: from, To: to, Count: 1, Kind: kind}
	f.n++
}

// FlightRecord is a copy of an engine's last events, oldest first.
type FlightRecord struct {
	At         clock.Time
	ConnID     uint64          // of the connection that was lost; zero when none is the reason
	Outcome    outcome.Outcome // of its first request
	Suppressed uint64          // losses of connections so far for which no record was made
	Events     []FlightEvent
	states     []string
}

// Record returns the last events. It allocates.
func (f *Recorder) Record(now clock.Time) FlightRecord {
	r := FlightRecord{At: now, Suppressed: f.kept, states: f.states}
	for i := f.n - min(f.n, flightEvents); i < f.n; i++ {
		r.Events = append(r.Events, f.events[i%flightEvents])
	}
	return r
}

// Lost notes that a connection was lost, and returns the record that says why, if it is wanted: MaxFlightRecords a second at most. ok is
// false without one.
func (f *Recorder) Lost(now clock.Time, id uint64, first outcome.Outcome, wanted bool) (r FlightRecord, ok bool) {
	f.Note(now, FlightLost, id, uint32(first), 0)
	if !wanted {
		return FlightRecord{}, false
	}
	if !f.rate.Allow(now, MaxFlightRecords) {
		f.kept++
		return FlightRecord{}, false
	}
	r = f.Record(now)
	r.ConnID, r.Outcome = id, first
	return r, true
}

// WriteTo writes the record for people, an event a line, with times relative to the record's.
func (r *FlightRecord) WriteTo(w io.Writer) (int64, error) {
	var b []byte
	if r.ConnID != 0 {
		b = fmt.Appendf(b, "connection %x lost (%v): ", r.ConnID, r.Outcome)
	}
	b = fmt.Appendf(b, "the engine's last %d events", len(r.Events))
	if r.Suppressed > 0 {
		b = fmt.Appendf(b, "; no record was made of %d losses before", r.Suppressed)
	}
	b = append(b, '\n')
	for i := range r.Events {
		b = r.Events[i].append(b, r.At, r.states)
	}
	n, err := w.Write(b)
	return int64(n), err
}

func (v *FlightEvent) append(b []byte, now clock.Time, states []string) []byte {
	b = fmt.Appendf(b, "%15v  %-16x  %s", -now.Sub(v.At), v.ConnID, flightNames[v.Kind])
	switch v.Kind {
	case FlightState:
		b = fmt.Appendf(b, " %s -> %s", states[v.From], states[v.To])
	case FlightDrop:
		b = fmt.Appendf(b, " %v", wire.DropReason(v.From))
	case FlightLoss:
		b = fmt.Appendf(b, " in %s space", [wire.NumSpaces]string{"request", "response"}[v.To])
	case FlightTimeout:
		b = fmt.Appendf(b, " %d", v.From)
	case FlightMove, FlightPath:
		b = fmt.Appendf(b, " %d -> %d", v.From, v.To)
	case FlightBulk:
		if v.From == 0 {
			b = fmt.Appendf(b, " left: %v", bulk.Cause(v.To))
		} else {
			b = fmt.Appendf(b, " proven for %d", v.To)
		}
	case FlightLost:
		b = fmt.Appendf(b, ": %v", outcome.Outcome(v.From))
	case FlightInterface:
		b = InterfaceChange(v.From).append(b, v.To)
	case FlightECN:
		b = fmt.Appendf(b, " %v", recovery.ECNChange(v.From))
	case FlightProbe, FlightSpurious, FlightPause:
	}
	if v.Count > 1 {
		b = fmt.Appendf(b, ", %d times in %v", v.Count, v.Last.Sub(v.At).Round(time.Microsecond))
	}
	return append(b, '\n')
}
