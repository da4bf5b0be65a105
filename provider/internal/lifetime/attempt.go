package lifetime

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

// Attempt is the state of a handshake at either end (PROTOCOL §7). Each message is repeated until an answer arrives. A duplicate of
// a message is answered by repeating the last answer. A slow application does not time out: PEND and REPACK show that the peer's
// provider is alive, so only silence of the provider ends an attempt. A nil Attempt is a handshake that ended long ago.
type Attempt struct {
	RetryAt clock.Time    // next repetition or probe; zero if none is due
	AliveAt clock.Time    // when to say that this side is alive; zero if never
	Gap     time.Duration // half of the time until the next repetition
	HeardAt clock.Time    // when the peer last answered
	Private []byte        // our private data, repeated with REQ or REP; the peer's before a passive end accepts

	left []link.Path // active: earlier paths of the request, oldest first, kept because an ICMP error may still arrive there

	Cookie   [wire.CookieLen]byte // active: cookie of the newest RETRY, if Retries > 0
	Sent     int32                // passive: bytes of REP sent since the last REQ, while not Proven
	IRD, ORD uint8                // the peer's, from its REQ or REP
	Retries  uint8
	Repeats  uint8 // repetitions of the current message
	Proven   bool  // the peer's address is validated, or this side chose it
}

// Begin starts to repeat a message.
func (a *Attempt) Begin(now clock.Time) {
	a.Gap, a.Repeats = FirstRetry, 0
	a.RetryAt, a.AliveAt = now.Add(a.Gap), 0
	a.HeardAt = now
}

// Think notes that the answer to the peer takes time. Before the peer repeats its message, it is told that this side is alive, unless the
// answer is ready earlier: the answer begins with Begin.
func (a *Attempt) Think(now clock.Time) { a.AliveAt = now.Add(ThinkTime) }

// Probe slows repetition down to probes, because the peer is alive but its application has not decided. An unanswered probe is
// repeated like any message. Otherwise, with 10 % loss in each direction, one attempt in 800 would fail because four probes in a
// row were lost.
func (a *Attempt) Probe(now clock.Time) {
	a.Gap, a.Repeats = FirstRetry/2, 0 // the next probe doubles it
	a.RetryAt = now.Add(MaxRetry)
	a.HeardAt = now
}

// Sooner moves the next repetition to at most FirstRetry from now, because the peer asks for it. Further calls have no effect.
func (a *Attempt) Sooner(now clock.Time) {
	if a.RetryAt != 0 {
		a.RetryAt = min(a.RetryAt, now.Add(FirstRetry))
	}
}

// Answered ends repetition, because the next message depends on our application.
func (a *Attempt) Answered(now clock.Time) {
	a.RetryAt = 0
	a.HeardAt = now
}

// Asked records that the REQ was received again.
func (a *Attempt) Asked(now clock.Time) { a.HeardAt, a.Sent = now, 0 }

// Credit records bytes of a handshake in another REQ, so that the answer may be longer.
func (a *Attempt) Credit() { a.Sent -= 3 * wire.MinPacket }

// Heard records any packet of the peer for this connection id. The peer has the id from our answer, so its provider is alive and
// its address is valid. RtuSent is excluded: RTU is answered by the provider without the application, so a peer that does not
// answer RTU counts as silent.
func (a *Attempt) Heard(p Phase, now clock.Time) {
	if a != nil && p != RtuSent {
		a.HeardAt, a.Proven = now, true
	}
}

// Stop ends repetition.
func (a *Attempt) Stop() {
	if a != nil {
		a.RetryAt = 0
	}
}

// Due returns the time of the next repetition, or zero if there is none.
func (a *Attempt) Due() clock.Time {
	if a == nil {
		return 0
	}
	return a.RetryAt
}

// SpeakAt returns when to say that this side is alive, or zero.
func (a *Attempt) SpeakAt() clock.Time {
	if a == nil {
		return 0
	}
	return a.AliveAt
}

// Silent reports whether the peer has been silent for dead, after which it counts as dead.
func (a *Attempt) Silent(now clock.Time, dead time.Duration) bool { return now.Sub(a.HeardAt) >= dead }

// SilentAt returns when to give up a connection that waits for an application. The peer probes every second, so its silence means
// that it is dead.
func (a *Attempt) SilentAt(p Phase, dead time.Duration) clock.Time {
	if !phases[p].thinking {
		return clock.Never
	}
	return a.HeardAt.Add(dead)
}

// Repeat sets the time of the next repetition. In a phase without repetition it stops. The gap is shortened by sooner/1024.
// Attempts that began together have different values of sooner, so that they do not overflow a short queue together again.
func (a *Attempt) Repeat(p Phase, now clock.Time, dead time.Duration, sooner uint8) {
	if p.Repeated() == 0 {
		a.RetryAt = 0
		return
	}
	a.Repeats++
	a.Gap = min(2*a.Gap, MaxRetry)
	a.RetryAt = min(now.Add(a.Gap-a.Gap*time.Duration(sooner)/1024), a.HeardAt.Add(dead))
}

// MaxLeft is the largest number of earlier paths that an attempt keeps. Each may hold a socket.
const MaxLeft = 8

// Leave records that the request changes to another path. It keeps p and forgets the oldest path if there are too many. A plain
// socket receives an ICMP error only while its source port is open. A router may take seconds to send the error, because it tries
// to resolve the host first.
func (a *Attempt) Leave(p link.Path, forget func(link.Path)) {
	a.left = append(a.left, p)
	if len(a.left) > MaxLeft {
		forget(a.left[0])
		a.left = a.left[1:]
	}
}

// ForgetLeft forgets all earlier paths, because the request waits for no answer.
func (a *Attempt) ForgetLeft(forget func(link.Path)) {
	for _, p := range a.left {
		forget(p)
	}
	a.left = nil
}

// Follow stores the cookie of a RETRY, so that the REQ is sent again with it. It returns false for a duplicate RETRY, and after
// MaxCookies of them. A RETRY does not mean that the peer stored the request.
func (a *Attempt) Follow(cookie []byte, now clock.Time, dead time.Duration) bool {
	if a.Retries == MaxCookies || a.Retries > 0 && [wire.CookieLen]byte(cookie) == a.Cookie {
		return false
	}
	a.Retries++
	a.Cookie = [wire.CookieLen]byte(cookie)
	a.Gap = FirstRetry
	a.RetryAt = min(now.Add(a.Gap), a.HeardAt.Add(dead))
	return true
}

// MayRepeat reports whether a message of n bytes may be sent, and counts it. Until the source has proven its address, by a cookie
// or an answer, this side sends at most three times the bytes it received (RFC 9000 §8.1).
func (a *Attempt) MayRepeat(n int) bool {
	if a.Proven {
		return true
	}
	if int(a.Sent)+n > 3*wire.MinPacket {
		return false
	}
	a.Sent += int32(n)
	return true
}
