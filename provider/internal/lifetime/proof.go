package lifetime

import (
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// ProofTime is how long a connection has to prove itself alive, unless its round trip is longer than a quarter of it.
	ProofTime = 240 * time.Millisecond
	// maxProofTime bounds it: a REQ that waits for it is answered within a second.
	maxProofTime = 600 * time.Millisecond
	// ProofPings are spread over this time, so that lost ones do not end a live connection.
	ProofPings = 3
)

// Proof is a demand that a connection prove itself alive. Silence decides nothing: the peer's process may be stopped for longer than the demand lasts.
type Proof struct {
	from    clock.Time    // when it was demanded
	each    time.Duration // between two PINGs
	at      clock.Time    // of the next PING, or of the end
	numbers [ProofPings]uint32
	pings   uint8
}

// NewProof begins to wait for a sign of life. roundTrip is what the path needs.
func NewProof(now clock.Time, roundTrip time.Duration) *Proof {
	return &Proof{from: now, at: now, each: min(max(ProofTime, 4*roundTrip), maxProofTime) / ProofPings}
}

// Given says that the peer was heard after the demand.
func (p *Proof) Given(heard clock.Time) bool { return heard > p.from }

// Denied says whether an RST without a valid token proves that the peer is dead. It does if it quotes the number of a PING of the demand,
// and if nothing arrived from the peer after the demand. Only a receiver at the peer's UDP port knows the number, and a stopped process
// keeps its port. Nil is no demand.
func (p *Proof) Denied(number uint32, heard clock.Time) bool {
	return p != nil && !p.Given(heard) && slices.Contains(p.numbers[:p.pings], number)
}

// Due is when Step is to be called; zero for nil.
func (p *Proof) Due() clock.Time {
	if p == nil {
		return 0
	}
	return p.at
}

// Step says what to do when it is due: send a PING, which has this packet number, or nothing more because it is over. It is over when all PINGs have had their
// time, also when the proof was given early: that bounds what demands cost.
func (p *Proof) Step(now clock.Time, number uint32) (ask bool) {
	if p.pings == ProofPings {
		return false
	}
	p.numbers[p.pings] = number
	p.pings++
	p.at = now.Add(p.each)
	return true
}
