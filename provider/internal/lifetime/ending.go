package lifetime

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// LastWord is the answer of an ended connection to packets of its peer.
type LastWord uint8

// Final answers of a connection.
const (
	Nothing   LastWord = iota
	SayReject          // REJ, or RST if the peer's id is unknown
	SayNotice          // no answer: both sides have sent DREQ
	SayAbort           // DREQ with ABORT
	SayAck             // the acknowledgement of a TERM
)

// Ending is the state of a connection's end (PROTOCOL §8). DREQ is a side's notice that its application disconnected. DREQ with
// ABORT also says that this side has freed the connection. An ended connection lingers to repeat its last answer, then frees its
// slot. The zero Ending has not begun to end.
type Ending struct {
	Word    LastWord
	Reason  wire.RejectReason // of SayReject
	Private []byte            // private data of SayReject

	NoticeAcked, NoticeReceived bool

	NoticeAt clock.Time // next repetition of our notice; zero if none is due
	Gap      time.Duration
	GiveUpAt clock.Time // when Disconnect, or a wait for the acknowledgement of a TERM, gives up; zero if neither waits
	FreeAt   clock.Time // when lingering ends; zero before the end

	repeatedAt clock.Time // time of the last repetition of Word
}

// Linger chooses the final answer.
func (e *Ending) Linger(word LastWord, reason wire.RejectReason, private []byte) {
	e.Word, e.Reason, e.Private = word, reason, private
	e.GiveUpAt = 0
}

// LingerFor returns how long an ended connection lingers: at least configured. If this side rejected a request, it lingers at least
// until the peer stops to repeat its REQ. Otherwise a repeated REQ would become a second request.
func (e *Ending) LingerFor(active bool, configured, dead time.Duration) time.Duration {
	if e.Word == SayReject && !active {
		return max(configured, dead+MaxRetry)
	}
	return configured
}

// Stay restarts the time that an ended connection lingers.
func (e *Ending) Stay(now clock.Time, active bool, configured, dead time.Duration) {
	e.FreeAt = now.Add(e.LingerFor(active, configured, dead))
}

// NoticeFlags returns the flags of our notice. They include ABORT if the connection ends abruptly.
func (e *Ending) NoticeFlags() uint8 {
	if e.Word == SayAbort {
		return wire.CtlFlagAbort
	}
	return 0
}

// Notify starts to repeat our notice, which was just sent.
func (e *Ending) Notify(now clock.Time) {
	e.Gap = FirstRetry
	e.NoticeAt = now.Add(FirstRetry)
}

// NotifyAgain records a repetition of our notice.
func (e *Ending) NotifyAgain(now clock.Time) {
	e.Gap = min(2*e.Gap, MaxRetry)
	e.NoticeAt = now.Add(e.Gap)
}

// Noted records that the peer has received our notice.
func (e *Ending) Noted() { e.NoticeAcked, e.NoticeAt = true, 0 }

// RepeatWord reports whether to send the final answer. It is sent once a poll at most.
func (e *Ending) RepeatWord(now clock.Time) bool {
	if e.repeatedAt == now {
		return false
	}
	e.repeatedAt = now
	return true
}

// Due returns the earlier of at and the next deadline of the end.
func (e *Ending) Due(at clock.Time) clock.Time {
	for _, t := range [...]clock.Time{e.NoticeAt, e.GiveUpAt, e.FreeAt} {
		if t != 0 && t < at {
			at = t
		}
	}
	return at
}
