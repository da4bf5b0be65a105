package recovery

import "github.com/ndxdp/ndxdp/internal/clock"

// Urgency is when to send an acknowledgement.
type Urgency uint8

const (
	AckNone    Urgency = iota
	AckDelayed         // at Acks.Due
	AckSoon            // after ackTurns polls, unless data carries it before; an application that answers does so in this time
	AckAtOnce          // at the end of this poll
)

// ackTurns is the number of polls that a requested acknowledgement waits for data to carry it. A polling application looks into its
// completion queue once or twice more before it answers. A poll without work takes 0.1 µs; a separate ACK takes 2 µs.
const ackTurns = 4

// loadedEvery is the number of packets after which a receiver under load sends an acknowledgement, because the sender slows down by it.
const loadedEvery = 8

// Acks decides when a connection acknowledges (PROTOCOL §9.2). The zero value has nothing to acknowledge.
type Acks struct {
	urgency Urgency
	explain bool // a full ACK is needed, because of gaps or a new receive limit
	turns   int8 // polls that AckSoon still waits
	packets int  // packets received after the last acknowledgement
	at      clock.Time
}

// Urgency returns when to acknowledge.
func (a *Acks) Urgency() Urgency { return a.urgency }

// Due returns the time of a delayed acknowledgement, or zero if there is none.
func (a *Acks) Due() clock.Time {
	if a.urgency != AckDelayed {
		return 0
	}
	return a.at
}

// Accepted handles a packet that was accepted in order. asked is its ACKREQ flag. gap: a gap closed. loaded: the peer must learn
// this side's load. An acknowledgement leaves at the latest after every packets or at time at. Accepted returns what to do now:
// nothing, wait, or acknowledge.
func (a *Acks) Accepted(asked, gap, loaded bool, every int, at clock.Time) Urgency {
	a.packets++
	switch {
	case gap, loaded && a.packets >= loadedEvery:
		a.Explain() // only a full ACK carries the load
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

// Raise raises the urgency to at least u.
func (a *Acks) Raise(u Urgency) {
	if u == AckSoon && a.urgency < AckSoon {
		a.turns = ackTurns
	}
	a.urgency = max(a.urgency, u)
}

// Explain requests a full ACK at the end of this poll.
func (a *Acks) Explain() {
	a.explain = true
	a.Raise(AckAtOnce)
}

// ExplainLater makes the next acknowledgement, whenever it leaves, a full ACK.
func (a *Acks) ExplainLater() { a.explain = true }

// Explains reports whether a full ACK is needed.
func (a *Acks) Explains() bool { return a.explain }

// Left records that data left. carried: the data carried an acknowledgement. whole: it says as much as a full ACK. Either ends the
// wait for data.
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

// Said records that a full ACK leaves.
func (a *Acks) Said() { *a = Acks{} }

// Turn handles the end of a poll. speak means that the acknowledgement must leave now; wait, that it may have to leave in a later
// poll.
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
