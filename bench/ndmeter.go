package bench

import (
	"runtime"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Resent is how many packets were sent again, by cause (docs/PERFORMANCE.md).
type Resent struct {
	Lost    uint64 `json:"lost"`    // later ones arrived
	Probe   uint64 `json:"probe"`   // a tail-loss probe: nothing was heard for two round trips and 50 µs, and 200 µs at least
	Timeout uint64 `json:"timeout"` // a time-out
	Receive uint64 `json:"receive"` // the peer had no receive and dropped it
	// Needless counts retransmissions, of all causes, that the peer had already received: nothing had been lost.
	Needless uint64 `json:"needless"`
}

// Sum is all of it.
func (r Resent) Sum() uint64 { return r.Lost + r.Probe + r.Timeout + r.Receive }

func (r Resent) plus(o Resent) Resent {
	return Resent{r.Lost + o.Lost, r.Probe + o.Probe, r.Timeout + o.Timeout, r.Receive + o.Receive, r.Needless + o.Needless}
}

// resentOf returns what was sent again between two moments. Peers tell later what they had got before, of packets of the warm-up too: needless are no more than were sent
// again.
func resentOf(now, before *nd.Stats) Resent {
	r := Resent{
		Lost: now.ResentLost - before.ResentLost, Probe: now.ResentProbe - before.ResentProbe,
		Timeout: now.ResentTimeout - before.ResentTimeout, Receive: now.ResentReceive - before.ResentReceive,
	}
	r.Needless = min(now.Duplicates-before.Duplicates, r.Sum())
	return r
}

// meter counts what a measured part costs this process.
type meter struct {
	adapter *nd.Adapter
	stats   nd.Stats
	mallocs uint64
	limited limits
	cpu     time.Duration
	began   time.Time
	warm    time.Time // when the allocations of the warm-up are left behind; zero when they are, or were never counted
}

// startMeter reads the counters. It stops the world, so it stays out of what is timed.
func startMeter(a *nd.Adapter) meter {
	m := meter{adapter: a, stats: a.Stats(), limited: takeLimits(a)}
	m.mallocs = mallocs() // last: reading the other counters allocates
	m.cpu, m.began = CPUTime(), time.Now()
	return m
}

// leaveWarmUp begins to count allocations anew once the warm-up is over: windows, rings and queues have grown to their size by then.
func (m *meter) leaveWarmUp(now time.Time) {
	if now.After(m.warm) {
		m.mallocs, m.warm = mallocs(), time.Time{}
	}
}

// mallocsSince returns how often memory was allocated since the start, or the end of the warm-up.
func (m *meter) mallocsSince() uint64 { return mallocs() - m.mallocs }

// cpuSince returns the processor time that this process took since the start.
func (m *meter) cpuSince() time.Duration { return CPUTime() - m.cpu }

// resent returns what was sent again since the start.
func (m *meter) resent() Resent {
	now := m.adapter.Stats()
	return resentOf(&now, &m.stats)
}

func mallocs() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.Mallocs
}
