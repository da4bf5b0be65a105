package space

import (
	"math"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// maxDelay is the longest delay that a block tells. Two clocks may differ by 100 parts in a million, so that holding for so long costs
// a microsecond of the round trip. An acknowledgement comes far sooner.
const maxDelay = 10 * time.Millisecond

// span is a run of received numbers.
type span struct{ low, high uint64 }

// Received knows which packet numbers of the peer came, and says what to tell of them. Its zero value has heard nothing. The
// largest wire.MaxAckRanges runs of numbers are kept; what lies below them is not told any more.
type Received struct {
	heard   uint64 // the largest number on any packet that was heard; zero when none was
	untold  bool   // something was added since the last block
	late    bool   // nobody looked when the largest number came
	n       int
	at      clock.Time // when the largest number came
	carrier uint64     // our packet whose block told everything up to toldTo; zero while none is awaited
	toldTo  uint64
	spans   [wire.MaxAckRanges]span // descending
}

// Resume begins anew after the largest number heard before, zero if there is none, and with the run of numbers that ended with it: the
// block that reported the run may have been lost.
func (r *Received) Resume(heard uint64, newest Run) {
	*r = Received{heard: heard}
	if newest.Length > 0 {
		r.n, r.spans[0] = 1, span{heard - uint64(newest.Below) - uint64(newest.Length) + 1, heard - uint64(newest.Below)}
	}
}

// Run is a run of received numbers, as far below the largest heard as its largest is.
type Run struct {
	Below  uint16
	Length uint16
}

// Newest returns the run that ends with the largest number added, or as much of it as a Run tells; its length is zero when there is none.
func (r *Received) Newest() Run {
	if r.n == 0 || r.heard-r.spans[0].high > math.MaxUint16 {
		return Run{}
	}
	s := r.spans[0]
	return Run{Below: uint16(r.heard - s.high), Length: uint16(min(s.high-s.low+1, math.MaxUint16))}
}

// Largest returns the largest number that was heard, zero when none was. It need not have been added.
func (r *Received) Largest() uint64 { return r.heard }

// At returns when the largest number was added; zero when none was.
func (r *Received) At() clock.Time { return r.at }

// Late says whether nobody looked when the largest number came (AWAY, PROTOCOL §3.5).
func (r *Received) Late() bool { return r.late }

// Heard notes that a packet with a number was heard. It reports whether a larger number was heard before.
func (r *Received) Heard(number uint64) (overtaken bool) {
	overtaken = number < r.heard
	r.heard = max(r.heard, number)
	return overtaken
}

// Near says whether a number is less than reach from the largest heard. When nothing was heard, none is.
func (r *Received) Near(number, reach uint64) bool {
	return r.heard != 0 && number+reach-1-r.heard < 2*reach-1
}

// Expand returns the number with these low 32 bits that is nearest to expected: one more than the largest number heard (RFC 9000 appendix A.3).
// Of the first packet that is heard it is what the packet says.
func Expand(low uint32, expected uint64) uint64 {
	const half, whole = 1 << 31, 1 << 32
	n := expected&^(whole-1) | uint64(low)
	switch {
	case n+half <= expected && n < ^uint64(0)-whole:
		return n + whole
	case n > expected+half && n >= whole:
		return n - whole
	}
	return n
}

// Add notes that what the packet with this number carried is here to stay. It reports false when that was known. late is said of
// a packet that may have waited long before anybody looked.
func (r *Received) Add(number uint64, now clock.Time, late bool) (fresh bool) {
	if r.n > 0 && number == r.spans[0].high+1 {
		r.spans[0].high = number
		r.at, r.late, r.untold = now, late, true
		return true
	}
	if r.n == 0 || number > r.spans[0].high {
		r.insert(0, number)
		r.at, r.late = now, late
		return true
	}
	return r.addBelow(number)
}

// addBelow is Add for a number below the largest.
func (r *Received) addBelow(number uint64) (fresh bool) {
	r.untold = true
	if number <= r.toldTo {
		r.carrier = 0 // that packet does not tell of this number
	}
	i := 0
	for i < r.n && number < r.spans[i].low {
		i++
	}
	if i < r.n && number <= r.spans[i].high {
		return false
	}
	// Between span i-1, which is above, and span i, which is below.
	above := r.spans[i-1].low == number+1
	below := i < r.n && r.spans[i].high+1 == number
	switch {
	case above && below:
		r.spans[i-1].low = r.spans[i].low
		copy(r.spans[i:r.n-1], r.spans[i+1:r.n])
		r.n--
	case above:
		r.spans[i-1].low = number
	case below:
		r.spans[i].high = number
	case i == len(r.spans):
		return false // too far below
	default:
		r.insert(i, number)
	}
	return true
}

// insert makes a span of one number at index i. The lowest one is forgotten when there are too many.
func (r *Received) insert(i int, number uint64) {
	if r.n < len(r.spans) {
		r.n++
	}
	copy(r.spans[i+1:r.n], r.spans[i:r.n-1])
	r.spans[i] = span{number, number}
	r.untold = true
}

// Untold says whether something was added that no block has told.
func (r *Received) Untold() bool { return r.untold }

// Tell fills a block with at most most ranges. It reports false when there is nothing to tell of. Flags are left to the caller.
func (r *Received) Tell(a *wire.Ack, now clock.Time, most int) bool {
	if r.n == 0 {
		return false
	}
	largest := r.spans[0].high
	a.Largest, a.Delay, a.N = uint32(largest), wire.AckDelayUnknown, 0
	if held := now.Sub(r.at); held <= maxDelay {
		a.Delay = uint16(held / wire.AckDelayUnit)
	}
	for _, s := range r.spans[:min(r.n, most)] {
		if largest-s.low >= 1<<31 {
			if a.N == 0 {
				a.Ranges[0], a.N = wire.AckRange{Last: 1<<31 - 1}, 1
			}
			break
		}
		a.Ranges[a.N] = wire.AckRange{First: uint32(largest - s.high), Last: uint32(largest - s.low)}
		a.N++
	}
	return true
}

// All says whether n ranges are all there are to tell of.
func (r *Received) All(n int) bool { return n == r.n }

// Told notes that our packet with this number carries the block that Tell filled with n ranges.
func (r *Received) Told(number uint64, n int) {
	r.untold = false
	if r.carrier == 0 && r.All(n) && n > 1 {
		r.carrier, r.toldTo = number, r.spans[0].high
	}
}

// Confirmed notes that this side's packets from low to high arrived. What one of them reported is not reported again.
func (r *Received) Confirmed(low, high uint64) {
	if r.carrier != 0 && low <= r.carrier && r.carrier <= high {
		r.carrier = 0
		r.forget()
	}
}

// Missed notes that this side's packet with the number largest arrived. If the packet whose arrival is awaited was sent before it and is
// not known to have arrived, another one takes its place.
func (r *Received) Missed(largest uint64) {
	if r.carrier != 0 && r.carrier < largest {
		r.carrier = 0
	}
}

// forget stops telling numbers up to toldTo, but for the largest of all.
func (r *Received) forget() {
	for r.n > 1 && r.spans[r.n-1].high <= r.toldTo {
		r.n--
	}
	if last := &r.spans[r.n-1]; last.low <= r.toldTo {
		last.low = min(r.toldTo+1, last.high)
	}
}
