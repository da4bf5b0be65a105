package lifetime

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const (
	// ProofTime is how long a connection has to prove itself alive, unless its round trip is longer than a quarter of it.
	ProofTime = 240 * time.Millisecond
	// maxProofTime bounds it: the REQ that waits is accepted within a second.
	maxProofTime = 600 * time.Millisecond
	// ProofPings are spread over that time, so that lost ones do not end a connection that lives.
	ProofPings = 3
)

// Proof is a demand that a connection prove itself alive.
type Proof struct {
	from  clock.Time    // when it was demanded
	each  time.Duration // between two PINGs
	at    clock.Time    // of the next PING, or of the end
	pings uint8
}

// NewProof begins to wait for a sign of life. roundTrip is what the path needs.
func NewProof(now clock.Time, roundTrip time.Duration) *Proof {
	return &Proof{from: now, at: now, each: min(max(ProofTime, 4*roundTrip), maxProofTime) / ProofPings}
}

// Given says that the peer was heard after the demand.
func (p *Proof) Given(heard clock.Time) bool { return heard > p.from }

// Due is when Step is to be called; zero for nil.
func (p *Proof) Due() clock.Time {
	if p == nil {
		return 0
	}
	return p.at
}

// Step says what to do when it is due: ask once more, or nothing more because it is over. It is over when all PINGs have had their time, also when
// the proof was given early: that bounds what demands cost.
func (p *Proof) Step(now clock.Time) (ask bool) {
	if p.pings == ProofPings {
		return false
	}
	p.pings++
	p.at = now.Add(p.each)
	return true
}
