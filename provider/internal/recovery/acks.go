package recovery

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Urgency is when the receiver speaks.
type Urgency uint8

const (
	AckNone    Urgency = iota
	AckDelayed         // at Acks.Due
	AckSoon            // in ackTurns turns, unless data carries it before: an application that answers does so in between
	AckAtOnce          // at the end of this turn
)

// ackTurns is how many turns an acknowledgement that was asked for waits for data to carry it. A polling application
// looks into its completion queue once or twice more before it answers; a turn without work takes 0.1 µs, an ACK of its
// own 2 µs.
const ackTurns = 4

// AnswerTime is how long an acknowledgement that was not asked for waits for the answer of a program that the packet woke.
const AnswerTime = 500 * time.Microsecond

// Acks decides when a connection acknowledges (PROTOCOL §9.2). Zero has nothing to say.
type Acks struct {
	urgency Urgency
	explain bool // only a whole ACK will do: gaps, or a new receive limit
	turns   int8 // turns that AckSoon still waits
	packets int  // received since the last word
	at      clock.Time
}

// Urgency is when there is something to say.
func (a *Acks) Urgency() Urgency { return a.urgency }

// Due is when what is delayed has to be said; zero when nothing is.
func (a *Acks) Due() clock.Time {
	if a.urgency != AckDelayed {
		return 0
	}
	return a.at
}

// Accepted handles a packet that was accepted in order. asked is its ACKREQ flag. gap says that a gap closed, loaded that the peer must be
// told of this side's load. The peer is acknowledged after every packets at the latest, and otherwise at time at. It returns what to do
// now: nothing, wait, or acknowledge.
func (a *Acks) Accepted(asked, gap, loaded bool, every int, at clock.Time) Urgency {
	a.packets++
	switch {
	case gap, loaded && a.packets >= every:
		a.Explain() // only a whole ACK carries the load
		return AckAtOnce
	case a.packets >= every:
		a.Raise(AckAtOnce)
		return AckAtOnce
	case asked:
		a.Raise(AckSoon)
		return AckSoon
	case a.urgency == AckNone, a.urgency == AckDelayed && at < a.at:
		a.at, a.urgency = at, AckDelayed
		return AckDelayed
	}
	return AckNone
}

// Raise makes the acknowledgement go out no later than so.
func (a *Acks) Raise(u Urgency) {
	if u == AckSoon && a.urgency < AckSoon {
		a.turns = ackTurns
	}
	a.urgency = max(a.urgency, u)
}

// Explain makes a whole ACK go out at the end of this turn.
func (a *Acks) Explain() {
	a.explain = true
	a.Raise(AckAtOnce)
}

// ExplainLater makes the next acknowledgement, whenever it goes out, a whole ACK.
func (a *Acks) ExplainLater() { a.explain = true }

// Explains says that only a whole ACK will do.
func (a *Acks) Explains() bool { return a.explain }

// Left notes that data left, whether they carried an acknowledgement, and whether it says as much as a whole ACK. An acknowledgement that
// waited for data then waits no more.
func (a *Acks) Left(carried, whole bool) {
	switch {
	case !carried && a.urgency == AckSoon:
		a.urgency = AckAtOnce
	case !carried:
	case a.explain && !whole:
		a.packets = 0
	default:
		*a = Acks{}
	}
}

// Said notes that a whole ACK goes out.
func (a *Acks) Said() { *a = Acks{} }

// Turn handles the end of a poll. speak says that the acknowledgement must leave now, wait that it may have to in a later poll.
func (a *Acks) Turn() (speak, wait bool) {
	switch {
	case a.urgency < AckSoon:
		return false, false
	case a.urgency == AckSoon && a.turns > 0:
		a.turns--
		return false, true
	}
	return true, false
}
