package bench

import (
	"runtime"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Resent is the number of retransmitted packets by cause (docs/PERFORMANCE.md).
type Resent struct {
	Lost    uint64 `json:"lost"`    // later ones arrived
	Probe   uint64 `json:"probe"`   // tail-loss probe: no packet arrived for two round trips and 50 µs, at least 200 µs
	Timeout uint64 `json:"timeout"` // a time-out
	Receive uint64 `json:"receive"` // the peer had no receive and dropped the packet
	// Needless counts retransmissions, for all causes, of packets that had already arrived.
	Needless uint64 `json:"needless"`
}

// Sum returns the total.
func (r Resent) Sum() uint64 { return r.Lost + r.Probe + r.Timeout + r.Receive }

func (r Resent) plus(o Resent) Resent {
	return Resent{r.Lost + o.Lost, r.Probe + o.Probe, r.Timeout + o.Timeout, r.Receive + o.Receive, r.Needless + o.Needless}
}

// resentOf returns the retransmissions between two moments. Peers report duplicates later, possibly of the warm-up, so Needless is
// limited to the sum.
func resentOf(now, before *nd.Stats) Resent {
	r := Resent{
		Lost: now.Recovery.ResentLost - before.Recovery.ResentLost, Probe: now.Recovery.ResentProbe - before.Recovery.ResentProbe,
		Timeout: now.Recovery.ResentTimeout - before.Recovery.ResentTimeout, Receive: now.Recovery.ResentReceive - before.Recovery.ResentReceive,
	}
	r.Needless = min(now.Recovery.Duplicates-before.Recovery.Duplicates, r.Sum())
	return r
}

// meter measures the cost of a test for this process.
type meter struct {
	adapter *nd.Adapter
	stats   nd.Stats
	mallocs uint64
	limited limits
	cpu     time.Duration
	began   time.Time
	warm    time.Time // when the warm-up ends and allocations are counted anew; zero afterwards, or if they are not counted
}

// startMeter reads the counters. It stops the world, so it must be called outside the measured time.
func startMeter(a *nd.Adapter) meter {
	m := meter{adapter: a, stats: a.Stats(), limited: takeLimits(a)}
	m.mallocs = mallocs() // last, because reading the other counters allocates
	m.cpu, m.began = CPUTime(), time.Now()
	return m
}

// leaveWarmUp counts allocations anew after the warm-up, when windows, rings and queues have grown to their size.
func (m *meter) leaveWarmUp(now time.Time) {
	if now.After(m.warm) {
		m.mallocs, m.warm = mallocs(), time.Time{}
	}
}

// mallocsSince returns the number of allocations after the start, or after the warm-up.
func (m *meter) mallocsSince() uint64 { return mallocs() - m.mallocs }

// cpuSince returns the processor time of this process after the start.
func (m *meter) cpuSince() time.Duration { return CPUTime() - m.cpu }

// resent returns the retransmissions after the start.
func (m *meter) resent() Resent {
	now := m.adapter.Stats()
	return resentOf(&now, &m.stats)
}

func mallocs() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.Mallocs
}
