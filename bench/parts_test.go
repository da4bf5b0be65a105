package bench

import (
	"math"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// TestPartsAreThoseOfTheData: parts belong to the connection that transferred the bytes. The completion queue's part counts only if a
// request of this test was fetched from it.
func TestPartsAreThoseOfTheData(t *testing.T) {
	control := nd.ConnectionInfo{ID: 1, BytesOut: 10, Latency: nd.Latency{Queueing: 1, Wire: 1, RemoteHold: 1, Completion: 9000}}
	data := nd.ConnectionInfo{ID: 2, Latency: nd.Latency{Completion: 9000}}
	before := limits{conns: map[uint64]nd.ConnectionInfo{1: control, 2: data}}
	data.BytesOut = 1 << 20
	data.Latency = nd.Latency{Queueing: 250, Wire: 4 * time.Microsecond, RemoteHold: time.Microsecond, Completion: 9000}
	after := limits{conns: map[uint64]nd.ConnectionInfo{1: control, 2: data}}
	var r Result
	before.explain(after, &r)
	if p := r.PartsUS; p == nil || *p != (Parts{Queueing: 0.25, Wire: 4, RemoteHold: 1}) || p.Sum() != 5.25 {
		t.Errorf("%+v", p)
	}
	data.Latency.Completion = 500
	after.conns[2] = data
	before.explain(after, &r)
	if p := r.PartsUS; p == nil || p.Completion != 0.5 || p.sane() != nil {
		t.Errorf("%+v", p)
	}
	pingPong := Result{LatIs: HalfRoundTrip}
	if before.explain(after, &pingPong); pingPong.PartsUS == nil || pingPong.PartsUS.Completion != 0 {
		t.Errorf("in a ping-pong nobody waits for the result: %+v", pingPong.PartsUS)
	}
	data.Latency = nd.Latency{Completion: 500}
	after.conns[2] = data
	before.explain(after, &r)
	if r.PartsUS != nil || r.PartsUS.sane() != nil {
		t.Errorf("no request was sampled: %+v", r.PartsUS)
	}
}

func TestBadPartsAreFound(t *testing.T) {
	for _, bad := range []Parts{{}, {Wire: -1, Queueing: 2}, {Wire: math.NaN()}, {RemoteHold: math.Inf(1)}} {
		if bad.sane() == nil {
			t.Errorf("%+v", bad)
		}
	}
}
