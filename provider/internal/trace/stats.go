package trace

import (
	"reflect"

	"github.com/ndxdp/ndxdp/provider/internal/bulk"
	"github.com/ndxdp/ndxdp/wire"
)

// Stats counts what an engine did. All counts are totals since the engine was made, except Connections.
type Stats struct {
	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64 // of ND packets
	AcksOut               uint64
	Retransmits           uint64 // packets sent again: the sum of the next four
	ResentLost            uint64 // because later ones arrived
	ResentProbe           uint64 // by a tail-loss probe
	ResentTimeout         uint64 // by a time-out
	ResentReceive         uint64 // because the peer had no receive and dropped them
	Duplicates            uint64 // packets that peers say they had got before: what was sent again in vain
	PacketsLost           uint64 // taken for lost by the reordering rule
	Probes                uint64 // tail-loss probes
	Timeouts              uint64
	SpuriousTimeouts      uint64
	RunsPaused            uint64 // times packets left one by one for some time, because runs may have been lost as a whole
	// The bulk lane (PROTOCOL §11.1): what of PacketsIn, BytesIn, PacketsOut and BytesOut came and left by it.
	BulkPacketsIn, BulkPacketsOut uint64
	BulkBytesIn, BulkBytesOut     uint64
	BulkProbes                    uint64 // sent to find out whether it carries packets
	BulkProven                    uint64 // that were answered
	BulkLeft                      uint64 // times a connection left it: the sum of the next three
	BulkUnanswered                uint64 // because probes stayed without an answer
	BulkTimedOut                  uint64 // because nothing came back of what was under way there
	BulkLossy                     uint64 // because most packets were lost
	Marked                        uint64 // packets that routers marked, as peers reported
	Pauses                        uint64 // times a peer had no receive for what was sent to it
	PathProbes                    uint64 // for a larger packet (PROTOCOL §9.6)
	PathRaised                    uint64 // probes that were answered
	BlackHoles                    uint64 // paths that seemed to have become smaller
	NoFrames                      uint64 // times a packet waited for a transmit frame
	IllegalTransitions            uint64

	// Source ports (PROTOCOL §6.1).
	Challenges   uint64 // CHALLENGEs sent, to peers of which packets came from another port
	PathsChanged uint64 // peers' ports that were proven
	PortsChanged uint64 // times our own port changed, because its path was silent

	// Strangers (PROTOCOL §7.5).
	CookiesSent    uint64 // REQs answered with RETRY
	CookiesRefused uint64 // REQs with a cookie that is wrong or too old
	SourceLimited  uint64 // REQs refused, or dropped until they come again, because their source has its share
	HandedOver     uint64 // REQs given to the adapter of this machine that has their ND port
	Contested      uint64 // times an open connection had to prove itself alive, because a REQ wanted its ND endpoints
	ProofPings     uint64 // PINGs sent for that
	PortsUnheld    uint64 // connections asked for a sign of life because their peer's kernel said that no process holds the peer's UDP port
	Forgotten      uint64 // connections that were over and whose record was needed for another

	// Several engines (ARCHITECTURE §4).
	Relayed uint64 // packets handed to another engine
	Moved   uint64 // connections that left for another engine

	Connections uint64 // now in the table
	Established uint64
	Refused     uint64
	Lost        uint64

	// Limited is how long connections were limited by what, in microseconds summed over connections; it never falls.
	Limited [NumLimits]uint64

	Drops [wire.NumDropReasons]uint64

	// Requests of this side and receives that ended well, by kind, and their bytes.
	RequestsDone, RequestBytes [NumRequestKinds]uint64

	// Sampled requests, by the time from their post to their result, and the sum of that time.
	Latencies    [NumLatencies]uint64
	LatencyNanos uint64
}

// Drop counts a packet that is not used, by reason.
func (s *Stats) Drop(d wire.DropReason) { s.Drops[d]++ }

// Arrive counts a packet of n bytes from a link, in the bulk lane or beside it. One that engines hand on, and perhaps back, arrived once.
func (s *Stats) Arrive(n int, inBulk bool) {
	s.PacketsIn++
	s.BytesIn += uint64(n)
	if inBulk {
		s.ArriveInBulk(n)
	}
}

// ArriveInBulk counts a packet of n bytes that turns out to have come by the bulk lane.
func (s *Stats) ArriveInBulk(n int) {
	s.BulkPacketsIn++
	s.BulkBytesIn += uint64(n)
}

// LeaveBulk counts that a connection left the bulk lane.
func (s *Stats) LeaveBulk(why bulk.Cause) {
	s.BulkLeft++
	*[...]*uint64{bulk.Unanswered: &s.BulkUnanswered, bulk.Silent: &s.BulkTimedOut, bulk.Lossy: &s.BulkLossy}[why]++
}

// Add sums up the counters of several engines: every field is a count.
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

// DropNames are the names of all reasons for which an engine drops a packet. Reasons about frames are not among them, because an engine
// gets packets only. Most such frames pass to the kernel, and a link counts the others as no ND packet.
func DropNames() (names []string) {
	for r := wire.DropNone + 1; r < wire.NumDropReasons; r++ {
		if r < wire.DropEther || r > wire.DropPort {
			names = append(names, r.String())
		}
	}
	return names
}

// DropsByName returns the drop counters that are not zero. It allocates.
func (s *Stats) DropsByName() map[string]uint64 {
	m := map[string]uint64{}
	for r, n := range s.Drops {
		if n > 0 {
			m[wire.DropReason(r).String()] = n
		}
	}
	return m
}
