package lifetime

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// LastWord is what a connection that is over says when its peer asks.
type LastWord uint8

// The last words of a connection.
const (
	Nothing   LastWord = iota
	SayReject          // REJ, or RST while the peer's id is not known
	SayNotice          // nothing: both have said DREQ
	SayAbort           // DREQ with ABORT
	SayAck             // the acknowledgement of a TERM
)

// Ending is how a connection ends (PROTOCOL §8): DREQ is a side's notice that its application disconnected; with ABORT it
// also says that this side is gone. A connection that is over lingers for a while to repeat its last word, then frees its slot. Zero is that
// of a connection which has not begun to end.
type Ending struct {
	Word    LastWord
	Reason  wire.RejectReason // of SayReject,
	Private []byte            // and what comes with it

	NoticeAcked, NoticeReceived bool

	NoticeAt clock.Time // next repetition of our notice; zero when none is due
	Gap      time.Duration
	GiveUpAt clock.Time // when Disconnect, or who waits for the acknowledgement of a TERM, stops waiting; zero when nobody does
	FreeAt   clock.Time // when lingering ends; zero before

	repeatedAt clock.Time // when the last word was last repeated
}

// Linger begins the end on the wire: the last word is chosen.
func (e *Ending) Linger(word LastWord, reason wire.RejectReason, private []byte) {
	e.Word, e.Reason, e.Private = word, reason, private
	e.GiveUpAt = 0
}

// LingerFor is how long an ended connection answers: at least configured. If this side ended an attempt, the peer may repeat its REQ until
// it declares this side dead. A connection that was forgotten before would let the REQ become a second request.
func (e *Ending) LingerFor(active bool, configured, dead time.Duration) time.Duration {
	if e.Word == SayReject && !active {
		return max(configured, dead+MaxRetry)
	}
	return configured
}

// Stay lets a connection that is over answer from now on for as long as that.
func (e *Ending) Stay(now clock.Time, active bool, configured, dead time.Duration) {
	e.FreeAt = now.Add(e.LingerFor(active, configured, dead))
}

// NoticeFlags are the flags of this side's notice: with ABORT if the connection ends abruptly.
func (e *Ending) NoticeFlags() uint8 {
	if e.Word == SayAbort {
		return wire.CtlFlagAbort
	}
	return 0
}

// Notify begins to repeat our notice, which has just gone out.
func (e *Ending) Notify(now clock.Time) {
	e.Gap = FirstRetry
	e.NoticeAt = now.Add(FirstRetry)
}

// NotifyAgain notes that our notice goes out again.
func (e *Ending) NotifyAgain(now clock.Time) {
	e.Gap = min(2*e.Gap, MaxRetry)
	e.NoticeAt = now.Add(e.Gap)
}

// Noted takes in that the peer has our notice.
func (e *Ending) Noted() { e.NoticeAcked, e.NoticeAt = true, 0 }

// RepeatWord says whether to say the last word, whatever came: once a turn is enough.
func (e *Ending) RepeatWord(now clock.Time) bool {
	if e.repeatedAt == now {
		return false
	}
	e.repeatedAt = now
	return true
}

// Due is the earliest of at and what there is to do for the end.
func (e *Ending) Due(at clock.Time) clock.Time {
	for _, t := range [...]clock.Time{e.NoticeAt, e.GiveUpAt, e.FreeAt} {
		if t != 0 && t < at {
			at = t
		}
	}
	return at
}
