package trace

import (
	"reflect"

	"github.com/ndxdp/ndxdp/provider/internal/bulk"
	"github.com/ndxdp/ndxdp/wire"
)

// Stats counts what an engine did. All counts but Connections are totals over the lifetime of the engine.
type Stats struct {
	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64 // bytes of ND packets
	AcksOut               uint64
	Retransmits           uint64 // packets retransmitted: the sum of the next four
	ResentLost            uint64 // declared lost because later packets arrived
	ResentProbe           uint64 // by a tail-loss probe
	ResentTimeout         uint64 // by a time-out
	ResentReceive         uint64 // dropped by a peer that had no receive
	Duplicates            uint64 // retransmissions in vain: packets that peers report as received before
	PacketsLost           uint64 // packets declared lost by the reordering rule
	Probes                uint64 // tail-loss probes
	Timeouts              uint64
	SpuriousTimeouts      uint64
	RunsPaused            uint64 // how often GSO batches were suspended because whole batches may have been lost
	// The bulk path (PROTOCOL §11.1): its part of PacketsIn, BytesIn, PacketsOut and BytesOut.
	BulkPacketsIn, BulkPacketsOut uint64
	BulkBytesIn, BulkBytesOut     uint64
	BulkProbes                    uint64 // probes of whether it carries packets
	BulkProven                    uint64 // probes that were answered
	BulkLeft                      uint64 // how often a connection left it: the sum of the next three
	BulkUnanswered                uint64 // because probes were not answered
	BulkTimedOut                  uint64 // because no packet on it was acknowledged
	BulkLossy                     uint64 // because most packets were lost
	LongProven                    uint64 // answered probes of long packets (PROTOCOL §11.2)
	LongLeft                      uint64 // how often a connection stopped sending them, because they or their probes were lost
	Marked                        uint64 // marked packets, as reported by peers
	Pauses                        uint64 // how often a peer had no receive for a SEND
	PathProbes                    uint64 // probes for larger packets (PROTOCOL §9.6)
	PathRaised                    uint64 // probes that were answered
	BlackHoles                    uint64 // how often packets had to shrink because the path may have lost larger ones
	NoFrames                      uint64 // how often a packet waited for a transmit frame
	IllegalTransitions            uint64

	// Source ports (PROTOCOL §6.1).
	Challenges       uint64 // CHALLENGEs sent, to peers whose packets came from another port
	PathsChanged     uint64 // new ports of peers that were validated
	PortsChanged     uint64 // changes of our own port because its path was silent
	Handshakes       uint64 // TLS handshakes that succeeded on this side (PROTOCOL §10.2)
	HandshakesFailed uint64 // TLS handshakes that failed: by a check of this side, by the peer's alert, or by silence
	KeyUpdates       uint64 // key generations that this side began on encrypted connections (PROTOCOL §10.4)

	// Peers without a connection (PROTOCOL §7.5).
	CookiesSent    uint64 // REQs answered with RETRY
	CookiesRefused uint64 // REQs with a wrong or expired cookie
	SourceLimited  uint64 // REQs refused or dropped because their source has used up its share
	HandedOver     uint64 // REQs passed to the adapter of this machine that has their ND port
	Contested      uint64 // how often an open connection had to prove that it is alive, because a REQ asked for its ND endpoints
	ProofPings     uint64 // PINGs sent for these proofs
	PortsUnheld    uint64 // connections whose peer was asked for a sign of life because its kernel reported a closed UDP port
	Forgotten      uint64 // ended connections whose record was reused early

	// Several engines (ARCHITECTURE §4).
	Relayed uint64 // packets passed to another engine
	Moved   uint64 // connections moved to another engine

	Connections uint64 // connections that exist now
	Established uint64
	Refused     uint64
	Lost        uint64

	// Limited is how long each limit blocked connections, in microseconds summed over connections. It never falls.
	Limited [NumLimits]uint64

	Drops [wire.NumDropReasons]uint64

	// Successful requests and receives of this side, by kind, and their bytes.
	RequestsDone, RequestBytes [NumRequestKinds]uint64

	// Sampled requests by latency from post to result, and the sum of their latencies.
	Latencies    [NumLatencies]uint64
	LatencyNanos uint64
}

// Drop counts a dropped packet by reason.
func (s *Stats) Drop(d wire.DropReason) { s.Drops[d]++ }

// Arrive counts a packet of n bytes from a link, by its path. A packet that engines pass on counts once.
func (s *Stats) Arrive(n int, inBulk bool) {
	s.PacketsIn++
	s.BytesIn += uint64(n)
	if inBulk {
		s.ArriveInBulk(n)
	}
}

// ArriveInBulk counts a packet of n bytes that turns out to have come by the bulk path.
func (s *Stats) ArriveInBulk(n int) {
	s.BulkPacketsIn++
	s.BulkBytesIn += uint64(n)
}

// LeaveBulk counts a connection that left the bulk path.
func (s *Stats) LeaveBulk(why bulk.Cause) {
	s.BulkLeft++
	*[...]*uint64{bulk.Unanswered: &s.BulkUnanswered, bulk.Silent: &s.BulkTimedOut, bulk.Lossy: &s.BulkLossy}[why]++
}

// Add adds the counters of another engine. Every field is a count.
func (s *Stats) Add(other Stats) {
	to, by := reflect.ValueOf(s).Elem(), reflect.ValueOf(other)
	for i := range to.NumField() {
		switch f := to.Field(i); f.Kind() {
		case reflect.Array:
			for j := range f.Len() {
				f.Index(j).SetUint(f.Index(j).Uint() + by.Field(i).Index(j).Uint())
			}
		default:
			f.SetUint(f.Uint() + by.Field(i).Uint())
		}
	}
}

// DropNames returns the names of all reasons for which an engine drops a packet. Reasons about frames are left out, because engines
// only see packets: most of these frames pass to the kernel, and links count the rest.
func DropNames() (names []string) {
	for r := wire.DropNone + 1; r < wire.NumDropReasons; r++ {
		if r < wire.DropEther || r > wire.DropPort {
			names = append(names, r.String())
		}
	}
	return names
}

// DropsByName returns the non-zero drop counters. It allocates.
func (s *Stats) DropsByName() map[string]uint64 {
	m := map[string]uint64{}
	for r, n := range s.Drops {
		if n > 0 {
			m[wire.DropReason(r).String()] = n
		}
	}
	return m
}
