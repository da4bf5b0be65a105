package bench

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// limits is a snapshot of the limits of each connection of an adapter, of the latency of its requests, and of the adapter's drops.
type limits struct {
	conns map[uint64]nd.ConnectionInfo // by id
	drops map[string]uint64
}

func takeLimits(a *nd.Adapter) limits {
	l := limits{map[uint64]nd.ConnectionInfo{}, a.Stats().Drops}
	for _, c := range a.Connections() {
		l.conns[c.ID] = c
	}
	return l
}

// explain fills in r with the changes between two snapshots. Shares and parts are from the connection that moved the most bytes,
// which is the data connection and not the control channel.
func (l limits) explain(now limits, r *Result) {
	old, busy := l.busiest(now)
	r.Limited, r.PartsUS, r.Drops = shares(old, busy), partsOf(old.Latency, busy.Latency, r.LatIs), map[string]uint64{}
	for reason, n := range now.drops {
		if n -= l.drops[reason]; n > 0 {
			r.Drops[reason] = n
		}
	}
}

// busiest returns the connection that moved the most bytes, in both snapshots.
func (l limits) busiest(now limits) (old, busy nd.ConnectionInfo) {
	most := uint64(0)
	for id, c := range now.conns {
		b := l.conns[id]
		if moved := c.BytesIn + c.BytesOut - b.BytesIn - b.BytesOut; moved > most {
			most, old, busy = moved, b, c
		}
	}
	return old, busy
}

// shares returns the share of time of each limit between two snapshots of a connection. A snapshot attributes the present interval
// to its limit, and a later snapshot may correct it. A limit whose time decreased counts as zero.
func shares(old, now nd.ConnectionInfo) map[string]float64 {
	before, sum := old.Limited.By(), time.Duration(0)
	spent := now.Limited.By()
	for i := range spent {
		spent[i] = max(spent[i]-before[i], 0)
		sum += spent[i]
	}
	by := map[string]float64{}
	for i, name := range nd.LimitNames() {
		if sum > 0 && spent[i] > 0 {
			by[name] = float64(spent[i]) / float64(sum)
		}
	}
	return by
}

// saneLimits checks the limits and drops of a result, if it has any.
func saneLimits(shares map[string]float64, drops map[string]uint64) error {
	sum := 0.0
	for name, share := range shares {
		if !slices.Contains(nd.LimitNames(), name) || !(share >= 0 && share <= 1) {
			return fmt.Errorf("limited: limit %q has the share %g: the name is unknown, or the share is not from 0 to 1", name, share)
		}
		sum += share
	}
	if len(shares) > 0 && math.Abs(sum-1) > 0.01 {
		return fmt.Errorf("limited: the sum of all shares is %g, and must be 1", sum)
	}
	for reason := range drops {
		if !slices.Contains(nd.DropReasons(), reason) {
			return fmt.Errorf("drops: %q is no known drop reason", reason)
		}
	}
	return nil
}
