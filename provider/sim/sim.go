package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Options bound a run, to make a failing seed smaller and easier to read. Zero is no bound.
type Options struct {
	Hosts, Sessions, Requests int               // largest numbers; requests of each side of a session
	Engines                   int               // largest number per host
	Without                   Faults            // faults that do not happen
	Plain                     bool              // no connection is encrypted
	Handshaker                func() Handshaker // makes the TLS handshakes of a world; nil for package shakertest
	Trace                     io.Writer         // receives every event; nil for none
	Tap                       provider.Tap      // tap of all engines; nil for none
}

// Report is what happened in a run.
type Report struct {
	Seed             uint64
	Conditions       Conditions
	Hosts, Sessions  int
	Virtual          time.Duration
	Requests         uint64
	Receives         uint64
	FastRegistered   uint64 // fast registrations that succeeded
	Streams          int    // worlds with one long stream
	Packets          uint64
	Retransmits      uint64
	Spurious         uint64 // spurious time-outs
	Bulk             uint64 // packets received by bulk paths
	BulkProven       uint64 // bulk paths proven
	BulkLeft         uint64 // bulk paths left
	LongProven       uint64 // connections that proved long packets
	LongLeft         uint64 // connections that sent no more of them, because they did not arrive
	Engines          int
	Relayed          uint64 // packets passed between engines of a host
	Moved            uint64 // connections moved to another engine
	KeyUpdates       uint64 // key generations of encrypted connections
	Handshakes       uint64 // ends of TLS handshakes that succeeded, and that failed
	HandshakesFailed uint64
	Met              Met
	Happened         Counts
	Drops            [wire.NumDropReasons]uint64
}

// Add adds the counts of another run.
func (r *Report) Add(o *Report) {
	r.Hosts += o.Hosts
	r.Sessions += o.Sessions
	r.Virtual += o.Virtual
	r.Requests += o.Requests
	r.Receives += o.Receives
	r.FastRegistered += o.FastRegistered
	r.Streams += o.Streams
	r.Packets += o.Packets
	r.Retransmits += o.Retransmits
	r.Spurious += o.Spurious
	r.Bulk += o.Bulk
	r.BulkProven += o.BulkProven
	r.BulkLeft += o.BulkLeft
	r.LongProven += o.LongProven
	r.LongLeft += o.LongLeft
	r.Engines += o.Engines
	r.Relayed += o.Relayed
	r.Moved += o.Moved
	r.KeyUpdates += o.KeyUpdates
	r.Handshakes += o.Handshakes
	r.HandshakesFailed += o.HandshakesFailed
	r.Met.add(&o.Met)
	for i, n := range o.Happened {
		r.Happened[i] += n
	}
	for i, n := range o.Drops {
		r.Drops[i] += n
	}
}

// Run simulates one world, which depends only on seed and o. The error describes the failure and the last events.
func Run(seed uint64, o Options) (Report, error) {
	w := newWorld(seed, o)
	report := Report{Seed: seed, Conditions: w.net.Conditions, Hosts: len(w.net.hosts), Sessions: len(w.sessions)}
	start := w.net.now
	w.live()
	report.Virtual = w.net.now.Sub(start)
	w.count(&report)
	if len(w.net.broken) == 0 {
		return report, nil
	}
	var tail strings.Builder
	w.each(func(s *session) {
		if !s.over {
			fmt.Fprintf(&tail, "%v\n%v\n", s.a, s.b)
		}
	})
	w.net.trace.last(&tail)
	return report, fmt.Errorf("sim: seed %d: %s\n%+v\n%s", seed, strings.Join(w.net.broken, "; "), report, &tail)
}
