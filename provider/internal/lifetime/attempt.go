package lifetime

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

// Attempt is what both ends keep of a handshake (PROTOCOL §7): every message is repeated until something answers; a message that comes twice
// is answered by repeating the last answer. A slow application never times out: PEND and REPACK say that the peer's provider is alive, and
// only its silence ends an attempt. Nil is an attempt that is long over.
type Attempt struct {
	RetryAt clock.Time    // next repetition or probe; zero when none is due
	Gap     time.Duration // time until the next repetition, halved
	HeardAt clock.Time    // when the peer last answered
	Private []byte        // ours, to repeat it with the REQ or the REP; passive and not accepted: the peer's

	left []link.Path // active: paths that the request took before, oldest first, while an ICMP error about it may still come there

	Cookie   [wire.CookieLen]byte // active: of the newest RETRY, when Retries > 0
	Sent     int32                // passive: bytes of REP since the last REQ, while not Proven
	IRD, ORD uint8                // the peer's, of its REQ or REP
	Retries  uint8
	Repeats  uint8 // times that the message of now was repeated
	Proven   bool  // the peer is where it says, or we chose where it is
}

// Begin starts repeating a message.
func (a *Attempt) Begin(now clock.Time) {
	a.Gap, a.Repeats = FirstRetry, 0
	a.RetryAt = now.Add(a.Gap)
	a.HeardAt = now
}

// Probe slows repetition down to probing: the peer is alive, its application thinks. A probe that is not answered is repeated
// like any message: with 10 % of loss each way one attempt in 800 died of four lost ones.
func (a *Attempt) Probe(now clock.Time) {
	a.Gap, a.Repeats = FirstRetry/2, 0 // doubled by the next probe
	a.RetryAt = now.Add(MaxRetry)
	a.HeardAt = now
}

// Sooner lets the message be repeated within the time after which it is repeated first, however long it would be otherwise: the peer asks for it.
// Asking more often changes nothing.
func (a *Attempt) Sooner(now clock.Time) {
	if a.RetryAt != 0 {
		a.RetryAt = min(a.RetryAt, now.Add(FirstRetry))
	}
}

// Answered ends repetition: the peer's turn is over, and our application thinks.
func (a *Attempt) Answered(now clock.Time) {
	a.RetryAt = 0
	a.HeardAt = now
}

// Asked takes in that the REQ came again.
func (a *Attempt) Asked(now clock.Time) { a.HeardAt, a.Sent = now, 0 }

// Heard takes in that the peer said something, whatever it was, to the connection's id, which it has from our answer: its provider lives, and it is where it
// says. RTU waits for no application: who does not answer it is as good as silent.
func (a *Attempt) Heard(p Phase, now clock.Time) {
	if a != nil && p != RtuSent {
		a.HeardAt, a.Proven = now, true
	}
}

// Stop ends repetition for good.
func (a *Attempt) Stop() {
	if a != nil {
		a.RetryAt = 0
	}
}

// Due is when the message is repeated; zero when it is not.
func (a *Attempt) Due() clock.Time {
	if a == nil {
		return 0
	}
	return a.RetryAt
}

// Silent says that the peer has not answered for so long that it is taken for dead.
func (a *Attempt) Silent(now clock.Time, dead time.Duration) bool { return now.Sub(a.HeardAt) >= dead }

// SilentAt is when a connection that waits for an application is given up, because its peer, which probes every second, is silent.
func (a *Attempt) SilentAt(p Phase, dead time.Duration) clock.Time {
	if !phases[p].thinking {
		return clock.Never
	}
	return a.HeardAt.Add(dead)
}

// Repeat notes that the message is repeated, or that nothing is in a phase without repetition. The next repetition comes sooner/1024 of the
// gap before its time. Attempts that began together differ in sooner, so that they do not meet again in a queue that is too short for all.
func (a *Attempt) Repeat(p Phase, now clock.Time, dead time.Duration, sooner uint8) {
	if p.Repeated() == 0 {
		a.RetryAt = 0
		return
	}
	a.Repeats++
	a.Gap = min(2*a.Gap, MaxRetry)
	a.RetryAt = min(now.Add(a.Gap-a.Gap*time.Duration(sooner)/1024), a.HeardAt.Add(dead))
}

// MaxLeft bounds the paths that an attempt keeps beside the path of its newest request. Each may hold a socket.
const MaxLeft = 8

// Leave notes that the request takes another path from now on, and forgets the oldest path when there are too many. Plain sockets hear of an ICMP
// error only while the source port is open. A router may take seconds to send one, because it looks for the host first.
func (a *Attempt) Leave(p link.Path, forget func(link.Path)) {
	a.left = append(a.left, p)
	if len(a.left) > MaxLeft {
		forget(a.left[0])
		a.left = a.left[1:]
	}
}

// ForgetLeft forgets all paths that the request left: it waits for no answer.
func (a *Attempt) ForgetLeft(forget func(link.Path)) {
	for _, p := range a.left {
		forget(p)
	}
	a.left = nil
}

// Follow takes the cookie of a RETRY, with which the REQ is sent again. It refuses a copy of one, and a peer that is never content. A RETRY is
// no sign that the request was noted.
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

// MayRepeat says whether a message of n bytes may be sent, and counts it. A source that has not proven its address, by a cookie or an
// answer, gets at most three times the bytes that it sent (RFC 9000 §8.1).
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
