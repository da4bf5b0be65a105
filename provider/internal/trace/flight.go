package trace

import (
	"fmt"
	"io"
	"time"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/bulk"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file is the flight recorder: an engine's last events, recorded for the loss of a connection. Ordinary packets are not
// events, so data transfer records nothing.

// flightEvents is the number of events that an engine keeps: 20 KiB, or about a second of losses on one connection.
const flightEvents = 512

// MaxFlightRecords is the largest number of records per second. If many connections are lost at once, the first records show why.
const MaxFlightRecords = 4

// FlightKind is the kind of an event.
type FlightKind uint8

// Kinds of events. After the colon: the meaning of From and To.
const (
	FlightState     FlightKind = iota // the phase of a connection changed: phases
	FlightDrop                        // a packet was dropped: reason, 0
	FlightLoss                        // a packet was declared lost: 0, space
	FlightProbe                       // a tail-loss probe was sent
	FlightTimeout                     // a retransmission time-out: number in a row, 0
	FlightSpurious                    // a time-out proved spurious
	FlightMove                        // a connection moved: from engine, to engine
	FlightPath                        // the packet size of the path changed: bytes before, after
	FlightPause                       // the peer had no receive
	FlightLost                        // the connection was lost: Outcome, 0
	FlightBulk                        // the bulk path: 1 and the packet size when proven; 0 and a bulk.Cause when left
	FlightInterface                   // the interface changed: InterfaceChange, its value
	FlightECN                         // ECN changed: recovery.ECNChange, 0
	FlightTLS                         // a TLS handshake ended: TLSEnd, cipher suite or alert
	FlightLong                        // long packets: 1 and the packet size when proven; 0, 0 when no more are sent
	FlightKeys                        // a direction began its next key generation: 0 sent or 1 received, generation
)

// TLSEnd is how a TLS handshake ended.
type TLSEnd uint8

// Ends of a TLS handshake. After the colon: the value in the event.
const (
	TLSDone    TLSEnd = iota // both sides are verified: cipher suite
	TLSFailed                // this side refused the peer: alert (RFC 8446 §6)
	TLSRefused               // the peer refused this side: alert
)

var flightNames = [...]string{
	"state", "drop", "loss", "tail probe", "time-out", "time-out undone", "move", "path", "pause", "lost", "bulk lane", "interface", "ECN", "TLS", "long packets", "keys",
}

// FlightEvent is one event, or several successive events of the same kind.
type FlightEvent struct {
	At       clock.Time // time of the first
	Last     clock.Time // time of the last
	ConnID   uint64     // id of this side; for a dropped packet, the id in the packet
	From, To uint32
	Count    uint32
	Kind     FlightKind
}

// Recorder is the ring of events. The engine's owner uses it.
type Recorder struct {
	events [flightEvents]FlightEvent
	n      uint64 // number of events so far
	rate   guard.Bucket
	forged guard.Bucket // events of packets that a forger can make
	kept   uint64       // records withheld because of MaxFlightRecords
	states []string     // names of the phases in FlightState
}

// NewRecorder returns an empty Recorder. states are the names of a connection's phases, by number.
func NewRecorder(states []string) *Recorder { return &Recorder{states: states} }

// Note adds an event. If it equals the newest event, only the count of this event grows, so that a flood of drops does not displace
// older events.
func (f *Recorder) Note(now clock.Time, kind FlightKind, id uint64, from, to uint32) {
	if f.repeats(kind, id, from, to) {
		last := &f.events[(f.n-1)%flightEvents]
		last.Count++
		last.Last = now
		return
	}
	f.events[f.n%flightEvents] = FlightEvent{At: now, Last: now, ConnID: id, From: from, To: to, Count: 1, Kind: kind}
	f.n++
}

// Drop adds the event of a dropped packet. Forgers can make packets that encryption refuses at any rate, and vary the reason. So of these
// packets only the first in each second is an event. A packet that repeats the newest event is counted in this event.
func (f *Recorder) Drop(now clock.Time, id uint64, d wire.DropReason) {
	if wire.DropTag <= d && d <= wire.DropShake && !f.repeats(FlightDrop, id, uint32(d), 0) && !f.forged.Allow(now, 1) {
		return
	}
	f.Note(now, FlightDrop, id, uint32(d), 0)
}

// repeats reports whether an event would equal the newest event.
func (f *Recorder) repeats(kind FlightKind, id uint64, from, to uint32) bool {
	last := &f.events[(f.n-1)%flightEvents]
	return f.n > 0 && last.Kind == kind && last.ConnID == id && last.From == from && last.To == to
}

// FlightRecord is a copy of an engine's last events, oldest first.
type FlightRecord struct {
	At         clock.Time
	ConnID     uint64          // connection that was lost; zero if none was
	Outcome    outcome.Outcome // outcome of its first failed request
	Suppressed uint64          // lost connections so far without a record
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

// Lost records that a connection was lost. If wanted is set, it returns the record of the loss, at most MaxFlightRecords times a
// second. Otherwise ok is false.
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

// WriteTo writes the record as text, one event a line, with times relative to the time of the record.
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
	case FlightBulk, FlightLong:
		switch {
		case v.From != 0:
			b = fmt.Appendf(b, " proven for %d", v.To)
		case v.Kind == FlightBulk:
			b = fmt.Appendf(b, " left: %v", bulk.Cause(v.To))
		default:
			b = append(b, " do not arrive"...)
		}
	case FlightLost:
		b = fmt.Appendf(b, ": %v", outcome.Outcome(v.From))
	case FlightInterface:
		b = InterfaceChange(v.From).append(b, v.To)
	case FlightECN:
		b = fmt.Appendf(b, " %v", recovery.ECNChange(v.From))
	case FlightTLS:
		b = append(b, ' ')
		switch TLSEnd(v.From) {
		case TLSDone:
			b = fmt.Appendf(b, "done, %v", aead.Suite(v.To))
		case TLSFailed:
			b = fmt.Appendf(b, "failed, alert %d to the peer", v.To)
		case TLSRefused:
			b = fmt.Appendf(b, "failed, alert %d of the peer", v.To)
		}
	case FlightKeys:
		b = fmt.Appendf(b, " %s, generation %d", [2]string{"sent", "received"}[v.From], v.To)
	case FlightProbe, FlightSpurious, FlightPause:
	}
	if v.Count > 1 {
		b = fmt.Appendf(b, ", %d times in %v", v.Count, v.Last.Sub(v.At).Round(time.Microsecond))
	}
	return append(b, '\n')
}
