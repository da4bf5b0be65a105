package lifetime

import (
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// ProofTime is how long a connection has to prove that it is alive. Four round trips are allowed if they are longer.
	ProofTime = 240 * time.Millisecond
	// maxProofTime bounds this time, so that a REQ that waits for the proof is answered within a second.
	maxProofTime = 600 * time.Millisecond
	// ProofPings is the number of PINGs sent during this time, so that a lost PING does not end a live connection.
	ProofPings = 3
)

// Proof is a demand that the peer of a connection prove that it is alive. Silence proves nothing, because the peer's process may be
// stopped for longer than the demand lasts.
type Proof struct {
	from    clock.Time         // beginning of the demand
	each    time.Duration      // time between two PINGs
	at      clock.Time         // time of the next PING, or of the end
	numbers [ProofPings]uint32 // packet numbers of the PINGs
	pings   uint8
}

// NewProof starts a demand. roundTrip is the round trip of the path.
func NewProof(now clock.Time, roundTrip time.Duration) *Proof {
	return &Proof{from: now, at: now, each: min(max(ProofTime, 4*roundTrip), maxProofTime) / ProofPings}
}

// Given reports whether the peer was heard after the beginning of the demand.
func (p *Proof) Given(heard clock.Time) bool { return heard > p.from }

// Denied reports whether an RST without a valid token proves that the peer is dead. It does if it quotes the packet number of a
// PING of this demand, and if nothing arrived from the peer after the demand. Only the process that holds the peer's UDP port knows
// the number, and a stopped process keeps its port. A nil Proof is no demand.
func (p *Proof) Denied(number uint32, heard clock.Time) bool {
	return p != nil && !p.Given(heard) && slices.Contains(p.numbers[:p.pings], number)
}

// Due returns the time of the next call of Step, or zero for nil.
func (p *Proof) Due() clock.Time {
	if p == nil {
		return 0
	}
	return p.at
}

// Step is called when it is due. It returns true if a PING with packet number number is to be sent, and false when the demand is
// over. A demand always lasts for its whole time, even if the peer answers early, because that bounds the cost of demands.
func (p *Proof) Step(now clock.Time, number uint32) (ask bool) {
	if p.pings == ProofPings {
		return false
	}
	p.numbers[p.pings] = number
	p.pings++
	p.at = now.Add(p.each)
	return true
}
