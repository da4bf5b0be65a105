package shake

import (
	"bytes"

	"github.com/ndxdp/ndxdp/wire"
)

// Bounds of the bytes of one level.
const (
	// MaxLevel is the largest number of bytes of a level: room for a chain of several large certificates.
	MaxLevel = 32 << 10
	// MaxUnproven is the same for a peer whose address is not proven.
	MaxUnproven = 8 << 10
	// MaxHello is the length of the longest ClientHello. Its fragments travel in at most four REQs.
	MaxHello = 4 * wire.MaxHelloBytes
	// maxGaps is how many gaps the received bytes may have. An honest peer sends a level in as many packets as fit, so that a gap
	// is the loss of one of a few dozen packets.
	maxGaps = 16
)

// span is a range of received bytes.
type span struct{ from, to int }

// Assembly puts the received bytes of one level in order. The zero value has received nothing.
type Assembly struct {
	bytes []byte // as far as the received byte with the largest offset
	total int    // bytes of the level so far, as the peer states; zero before the first fragment
	taken int    // bytes that were taken
	have  int    // bytes received without a gap
	later [maxGaps]span
	n     int // spans behind gaps, in ascending order, separated by gaps
}

// Have returns the number of bytes received without a gap from the first byte on.
func (a *Assembly) Have() int { return a.have }

// Whole reports whether all bytes were received that the peer has announced.
func (a *Assembly) Whole() bool { return a.total > 0 && a.have == a.total }

// Add takes a fragment: bytes from an offset on, of total bytes of the level. most bounds total. Add reports whether the fragment
// brought bytes that Have counts, so that Next has something new.
//
// The total may grow when all earlier bytes were received: a level may have several flights. Add drops (DropShake) a fragment without
// bytes, a fragment beyond a bound, and a fragment with another total. It also drops a fragment that contradicts received bytes.
func (a *Assembly) Add(offset, total int, b []byte, most int) (fresh bool, d wire.DropReason) {
	end := offset + len(b)
	switch {
	case len(b) == 0, offset < 0, end > total, total > most:
		return false, wire.DropShake
	case total != a.total && a.total != 0 && (total < a.total || !a.Whole()):
		return false, wire.DropShake
	case !a.agrees(offset, b):
		return false, wire.DropShake
	}
	if end > len(a.bytes) {
		a.bytes = append(a.bytes, make([]byte, end-len(a.bytes))...)
	}
	before := a.have
	if offset > a.have {
		if !a.insert(span{offset, end}) {
			return false, wire.DropShake
		}
	} else {
		a.have = max(a.have, end)
	}
	a.total = total
	copy(a.bytes[offset:], b)
	for a.n > 0 && a.later[0].from <= a.have {
		a.have = max(a.have, a.later[0].to)
		a.n--
		copy(a.later[:a.n], a.later[1:])
	}
	return a.have > before, wire.DropNone
}

// agrees reports whether a fragment has the same bytes as were received before, where both overlap.
func (a *Assembly) agrees(offset int, b []byte) bool {
	same := func(s span) bool {
		from, to := max(s.from, offset), min(s.to, offset+len(b))
		return from >= to || bytes.Equal(a.bytes[from:to], b[from-offset:to-offset])
	}
	for _, s := range a.later[:a.n] {
		if !same(s) {
			return false
		}
	}
	return same(span{0, a.have})
}

// insert records a span behind a gap, and joins it with spans that it touches. It returns false if there would be too many gaps.
func (a *Assembly) insert(s span) bool {
	at, joined := 0, 0
	for at < a.n && a.later[at].to < s.from {
		at++
	}
	for at+joined < a.n && a.later[at+joined].from <= s.to {
		s.from, s.to = min(s.from, a.later[at+joined].from), max(s.to, a.later[at+joined].to)
		joined++
	}
	if joined == 0 && a.n == maxGaps {
		return false
	}
	copy(a.later[at+1:], a.later[at+joined:a.n])
	a.later[at] = s
	a.n += 1 - joined
	return true
}

// Next returns the bytes in order that were not taken. They are valid until the next Add.
func (a *Assembly) Next() []byte { return a.bytes[a.taken:a.have] }

// Take takes the bytes that Next returns.
func (a *Assembly) Take() { a.taken = a.have }

// Erase clears and forgets all bytes.
func (a *Assembly) Erase() {
	clear(a.bytes)
	*a = Assembly{}
}
