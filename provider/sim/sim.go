package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Options bound a run: a seed that fails is made smaller with them until it is easy to read. Zero bounds nothing.
type Options struct {
	Hosts, Sessions, Requests int          // at most; requests of each side of a session
	Engines                   int          // of a host, at most
	Without                   Faults       // these do not happen
	Trace                     io.Writer    // every event goes there; nil for none
	Tap                       provider.Tap // of all engines; nil for none
}

// Report is what a run did.
type Report struct {
	Seed            uint64
	Conditions      Conditions
	Hosts, Sessions int
	Virtual         time.Duration
	Requests        uint64
	Receives        uint64
	FastRegistered  uint64 // fast registrations that succeeded
	Streams         int    // worlds of a stream
	Packets         uint64
	Retransmits     uint64
	Spurious        uint64 // time-outs that were none
	Bulk            uint64 // packets that came by bulk lanes
	BulkProven      uint64 // times a connection proved one
	BulkLeft        uint64 // times one was left
	Engines         int
	Relayed         uint64 // packets that an engine handed to another of its host
	Moved           uint64 // connections that left for another engine
	Happened        Counts
	Drops           [wire.NumDropReasons]uint64
}

// Add takes in another run's counts.
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
	r.Engines += o.Engines
	r.Relayed += o.Relayed
	r.Moved += o.Moved
	for i, n := range o.Happened {
		r.Happened[i] += n
	}
	for i, n := range o.Drops {
		r.Drops[i] += n
	}
}

// Run simulates one world. Everything in it follows from seed and the bounds. The error says what was wrong and what happened
// last.
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
