package bench

import (
	"runtime"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// meter counts what a measured part costs this process.
type meter struct {
	adapter     *nd.Adapter
	mallocs     uint64
	retransmits uint64
	limited     limits
	began       time.Time
}

// startMeter reads the counters. It stops the world, so it stays out of what is timed.
func startMeter(a *nd.Adapter) meter {
	m := meter{adapter: a, retransmits: a.Stats().Retransmits, limited: takeLimits(a)}
	m.mallocs = mallocs() // last: reading the other counters allocates
	m.began = time.Now()
	return m
}

// stop returns what was added since the start.
func (m meter) stop() (mallocsMore, retransmitsMore uint64) {
	return mallocs() - m.mallocs, m.adapter.Stats().Retransmits - m.retransmits
}

func mallocs() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.Mallocs
}
