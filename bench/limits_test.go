package bench

import (
	"maps"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// TestLimitsAreThoseOfTheData: shares belong to the interval and to the busiest connection, and drops to the interval.
func TestLimitsAreThoseOfTheData(t *testing.T) {
	data := nd.ConnectionInfo{ID: 1, BytesOut: 1000, Limited: nd.Limits{Application: time.Hour}}
	control := nd.ConnectionInfo{ID: 2, BytesOut: 5000, Limited: nd.Limits{Application: time.Hour}}
	before := limits{map[uint64]nd.ConnectionInfo{1: data, 2: control}, map[string]uint64{"crc": 5, "duplicate": 1}}
	data.BytesIn, data.Limited.Fabric, data.Limited.CPU = 9000, 3*time.Second, time.Second
	control.BytesOut, control.Limited.Application = 5100, 2*time.Hour
	after := limits{map[uint64]nd.ConnectionInfo{1: data, 2: control}, map[string]uint64{"crc": 5, "duplicate": 4}}
	var r Result
	before.explain(after, &r)
	if !maps.Equal(r.Limited, map[string]float64{"fabric": 0.75, "cpu": 0.25}) || !maps.Equal(r.Drops, map[string]uint64{"duplicate": 3}) {
		t.Errorf("%v, %v", r.Limited, r.Drops)
	}
	if err := saneLimits(r.Limited, r.Drops); err != nil {
		t.Error(err)
	}
	if before.explain(before, &r); len(r.Limited)+len(r.Drops) > 0 || r.PartsUS != nil || saneLimits(r.Limited, r.Drops) != nil {
		t.Errorf("nothing happened: %+v", r)
	}
}

// TestSharesOfALimitThatShrank: a later snapshot may attribute time of an earlier snapshot to another limit.
func TestSharesOfALimitThatShrank(t *testing.T) {
	old := nd.ConnectionInfo{Limited: nd.Limits{Application: time.Second, CPU: time.Second}}
	now := nd.ConnectionInfo{Limited: nd.Limits{Application: 3 * time.Second, CPU: time.Second - 1}}
	if got := shares(old, now); !maps.Equal(got, map[string]float64{"application": 1}) || saneLimits(got, nil) != nil {
		t.Errorf("%v, %v", got, saneLimits(got, nil))
	}
}

func TestBadLimitsAreFound(t *testing.T) {
	for _, bad := range []struct {
		shares map[string]float64
		drops  map[string]uint64
	}{
		{shares: map[string]float64{"weather": 1}},
		{shares: map[string]float64{"cpu": 2}},
		{shares: map[string]float64{"cpu": 0.5}},
		{drops: map[string]uint64{"weather": 1}},
	} {
		if saneLimits(bad.shares, bad.drops) == nil {
			t.Errorf("%+v", bad)
		}
	}
}
