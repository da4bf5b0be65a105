package space

import (
	"math"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// maxDelay is the longest delay that an ACK block reports. Two clocks may differ by 100 parts per million, so this delay costs a
// microsecond of accuracy of the round trip. Usual delays are far shorter.
const maxDelay = 10 * time.Millisecond

// span is a range of received packet numbers.
type span struct{ low, high uint64 }

// Received knows which packet numbers were received from the peer, and which of them to acknowledge. It keeps the highest
// wire.MaxAckRanges ranges of numbers; lower ranges are not acknowledged any more. The zero value has received nothing.
type Received struct {
	heard   uint64 // largest packet number received; zero if none
	untold  bool   // a number was added after the last ACK block
	late    bool   // no goroutine looked for packets when the largest number arrived
	n       int
	at      clock.Time // when the largest number arrived
	carrier uint64     // number of our packet whose ACK block reported all ranges up to toldTo; zero if none is outstanding
	toldTo  uint64
	spans   [wire.MaxAckRanges]span // descending
}

// Resume starts again after the largest number received before, which is zero if there is none. newest is the range that ended with
// it. It is reported again, because the block with it may have been lost.
func (r *Received) Resume(heard uint64, newest Run) {
	*r = Received{heard: heard}
	if newest.Length > 0 {
		r.n, r.spans[0] = 1, span{heard - uint64(newest.Below) - uint64(newest.Length) + 1, heard - uint64(newest.Below)}
	}
}

// Run is a range of received numbers. Below is the distance from the largest number received to its end.
type Run struct {
	Below  uint16
	Length uint16
}

// Newest returns the range of the largest added number, as far as a Run can describe it. Its length is zero if there is none.
func (r *Received) Newest() Run {
	if r.n == 0 || r.heard-r.spans[0].high > math.MaxUint16 {
		return Run{}
	}
	s := r.spans[0]
	return Run{Below: uint16(r.heard - s.high), Length: uint16(min(s.high-s.low+1, math.MaxUint16))}
}

// Largest returns the largest number received, or zero if none. It may not have been added.
func (r *Received) Largest() uint64 { return r.heard }

// At returns when the largest number was added, or zero if none was.
func (r *Received) At() clock.Time { return r.at }

// Late reports whether no goroutine looked for packets when the largest number arrived (AWAY, PROTOCOL §3.5).
func (r *Received) Late() bool { return r.late }

// Heard records the number of a received packet. It reports whether a larger number was received before.
func (r *Received) Heard(number uint64) (overtaken bool) {
	overtaken = number < r.heard
	r.heard = max(r.heard, number)
	return overtaken
}

// Near reports whether a number is closer than reach to the largest number received. It returns false before the first number.
func (r *Received) Near(number, reach uint64) bool {
	return r.heard != 0 && number+reach-1-r.heard < 2*reach-1
}

// Expand returns the number with these low 32 bits that is nearest to expected, which is one more than the largest number received
// (RFC 9000 appendix A.3). For the first packet, expected is the number in the packet.
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

// Add records that the contents of a packet were received for good. It returns false for a duplicate. late means that the packet
// may have waited long before the engine looked for it.
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

// addBelow is Add for a number below the largest one.
func (r *Received) addBelow(number uint64) (fresh bool) {
	r.untold = true
	if number <= r.toldTo {
		r.carrier = 0 // the outstanding block does not report this number
	}
	i := 0
	for i < r.n && number < r.spans[i].low {
		i++
	}
	if i < r.n && number <= r.spans[i].high {
		return false
	}
	// number lies between span i-1, which is higher, and span i.
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

// insert inserts a span of one number at index i. If there are too many spans, the lowest one is dropped.
func (r *Received) insert(i int, number uint64) {
	if r.n < len(r.spans) {
		r.n++
	}
	copy(r.spans[i+1:r.n], r.spans[i:r.n-1])
	r.spans[i] = span{number, number}
	r.untold = true
}

// Untold reports whether a number was added after the last ACK block.
func (r *Received) Untold() bool { return r.untold }

// Tell fills an ACK block with at most most ranges. It returns false if no number was added. The caller sets the flags.
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

// All reports whether n ranges are all ranges.
func (r *Received) All(n int) bool { return n == r.n }

// Told records that our packet with this number carries the block that Tell filled with n ranges.
func (r *Received) Told(number uint64, n int) {
	r.untold = false
	if r.carrier == 0 && r.All(n) && n > 1 {
		r.carrier, r.toldTo = number, r.spans[0].high
	}
}

// Confirmed records that this side's packets from low to high arrived. If the outstanding block is in one of them, its ranges are
// not reported again.
func (r *Received) Confirmed(low, high uint64) {
	if r.carrier != 0 && low <= r.carrier && r.carrier <= high {
		r.carrier = 0
		r.forget()
	}
}

// Missed records that this side's packet with number largest arrived. If the outstanding block is in an earlier packet, which has
// not arrived, a later block replaces it.
func (r *Received) Missed(largest uint64) {
	if r.carrier != 0 && r.carrier < largest {
		r.carrier = 0
	}
}

// forget drops all numbers up to toldTo except the largest number.
func (r *Received) forget() {
	for r.n > 1 && r.spans[r.n-1].high <= r.toldTo {
		r.n--
	}
	if last := &r.spans[r.n-1]; last.low <= r.toldTo {
		last.low = min(r.toldTo+1, last.high)
	}
}
