package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// Options bound a run. The zero value of a field takes the default named beside it.
type Options struct {
	Requests int       // each side posts at most; default 200
	Trace    io.Writer // every event goes there; nil for none
}

// Report is what a run did.
type Report struct {
	Seed            uint64
	Conditions      Conditions
	Hosts, Sessions int
	Virtual         time.Duration
	Requests        uint64
	Receives        uint64
	Packets         uint64
	Retransmits     uint64
	Spurious        uint64 // time-outs that were none
	Drops           [wire.NumDropReasons]uint64
}

// Run simulates one world. Everything in it follows from seed. The error names the seed, what was wrong and what
// happened last.
func Run(seed uint64, o Options) (Report, error) {
	if o.Requests == 0 {
		o.Requests = 200
	}
	rng := rand.New(rand.NewPCG(seed, 0x776f726c64))
	w := &world{net: NewNetwork(seed, drawConditions(rng), o.Trace), rng: rng}
	w.build(o)
	report := Report{Seed: seed, Conditions: w.net.Conditions, Hosts: len(w.net.hosts), Sessions: len(w.sessions)}
	start := w.net.now
	w.live()
	report.Virtual = w.net.now.Sub(start)
	w.count(&report)
	if len(w.net.broken) == 0 {
		return report, nil
	}
	var tail strings.Builder
	for _, s := range w.sessions {
		fmt.Fprintf(&tail, "%v\n%v\n", s.a, s.b)
	}
	w.net.trace.last(&tail)
	return report, fmt.Errorf("sim: seed %d: %s\n%+v\n%s", seed, strings.Join(w.net.broken, "; "), report, &tail)
}

// drawConditions chooses a network: a third are clean, the others bad in several ways at once.
func drawConditions(rng *rand.Rand) Conditions {
	c := Conditions{Delay: between(rng, time.Microsecond, 100*time.Microsecond), BurstLen: between(rng, 0, 10*time.Millisecond)}
	if rng.IntN(8) == 0 {
		c.Delay = between(rng, time.Millisecond, 50*time.Millisecond)
	}
	if rng.IntN(3) == 0 {
		return c
	}
	some := func(most int) int {
		if rng.IntN(2) == 0 {
			return 0
		}
		return rng.IntN(most)
	}
	c.Jitter = between(rng, 0, c.Delay*time.Duration(rng.IntN(4)))
	c.Loss, c.Burst = some(1000), some(100)
	c.Duplicate, c.Corrupt, c.Truncate, c.Late = some(1000), some(300), some(100), some(200)
	return c
}

type world struct {
	net      *Network
	rng      *rand.Rand
	sessions []*session
}

func (w *world) build(o Options) {
	hosts := 2 + w.rng.IntN(3)
	for range hosts {
		w.net.AddHost(HostConfig{
			Engine:    provider.Config{Rest: []time.Duration{50 * time.Microsecond, 2 * time.Millisecond, time.Second}[w.rng.IntN(3)]},
			MaxPacket: []int{1200, 1408, 1472, 4096, 8972, 16384, 65507}[w.rng.IntN(7)],
			FragSize:  []int{3840, 2048, 333, 97, 61, 1}[w.rng.IntN(6)],
			TxFrames:  []int{24, 40, 200, 1000}[w.rng.IntN(4)],
			TxHold:    between(w.rng, time.Microsecond, 50*time.Microsecond),
			Turn:      between(w.rng, 2*time.Microsecond, 10*time.Microsecond),
			Wake:      between(w.rng, time.Microsecond, 30*time.Microsecond),
		})
	}
	for i := range 1 + w.rng.IntN(4) {
		a := w.rng.IntN(hosts)
		b := (a + 1 + w.rng.IntN(hosts-1)) % hosts
		w.sessions = append(w.sessions, w.net.newSession(i, w.net.hosts[a], w.net.hosts[b], o.Requests))
	}
	if w.rng.IntN(3) == 0 {
		w.net.After(between(w.rng, 0, 50*time.Millisecond), w.mishap)
	}
}

// mishap is something rare: a cut between two hosts, or one that loses its core for a while. All are shorter than what
// makes a peer dead.
func (w *world) mishap() {
	a := w.net.hosts[w.rng.IntN(len(w.net.hosts))]
	b := w.net.hosts[w.rng.IntN(len(w.net.hosts))]
	if a != b && w.rng.IntN(2) == 0 {
		w.net.Partition(a, b, between(w.rng, 0, 400*time.Millisecond))
	} else {
		a.Pause(between(w.rng, 0, 100*time.Millisecond))
	}
	if w.rng.IntN(3) > 0 {
		w.net.After(between(w.rng, 0, 100*time.Millisecond), w.mishap)
	}
}

// live runs the world: traffic, endings, and the silence in which everything must come back.
func (w *world) live() {
	const limit = 5 * time.Minute
	all := func(ok func(*session) bool) func() bool {
		return func() bool {
			for _, s := range w.sessions {
				if !ok(s) {
					return false
				}
			}
			return true
		}
	}
	if !w.net.RunUntil(limit, all((*session).settled)) {
		w.net.Fail("the applications are not done")
		return
	}
	for _, s := range w.sessions {
		s.end()
	}
	if !w.net.RunUntil(limit, all((*session).done)) {
		w.net.Fail("the sessions do not end")
		return
	}
	for _, s := range w.sessions {
		s.tearDown()
	}
	w.net.RunUntil(30*time.Second, func() bool { return false })
	if len(w.net.broken) == 0 {
		for _, h := range w.net.hosts {
			h.Audit()
		}
	}
}

func (w *world) count(r *Report) {
	for _, s := range w.sessions {
		for _, x := range []*side{s.a, s.b} {
			r.Requests += x.done.requests
			r.Receives += x.done.receives
		}
	}
	for _, h := range w.net.hosts {
		s := h.Engine.Stats()
		r.Packets += s.PacketsOut
		r.Retransmits += s.Retransmits
		r.Spurious += s.SpuriousTimeouts
		for i, n := range s.Drops {
			r.Drops[i] += n
		}
	}
}

var _ provider.Link = (*Host)(nil)
