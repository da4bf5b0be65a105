package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
)

func TestConnectionsOverVeth(t *testing.T) {
	pair, job := newPair(t, netlab.PairConfig{MTU: 1500, StaticNeighbours: true})
	job.Kind, job.Conn = KindConn, &ConnSpec{N: 500, Idle: 50 * time.Millisecond}
	got := runBoth(t, job, pair.A.Do, pair.B.Do)
	if len(got.conns) != 2 || got.conns[0].Role == got.conns[1].Role {
		t.Fatalf("not one part for each side: %+v", got.conns)
	}
	for _, x := range got.conns {
		x.QueueBytes = 1 // both sides run in this process, so memory figures mean nothing
		if err := x.sane(); err != nil || x.Connections != 500 {
			t.Errorf("%v: %+v", err, x)
		}
	}
}

func goodSides() []ConnSide {
	side := ConnSide{
		Role: Requester, Connections: 10, Datapath: "generic", ConnectSeconds: 0.001, PerSecond: 10000, QueueBytes: 500, OtherBytes: 1024,
		IdleSeconds: 1, IdleCPU: 2, CloseSeconds: 0.001, ConnectUS: &Latency{Min: 1, P50: 2, P90: 2, P99: 3, P999: 3, Max: 3},
	}
	other := side
	other.Role, other.ConnectUS = Responder, nil
	return []ConnSide{side, other}
}

// TestConnectionReports: a report with only connections is complete. A missing field is detected, and each bound holds at its value and
// not beyond.
func TestConnectionReports(t *testing.T) {
	r := NewReport()
	r.Connections = goodSides()
	r.SetRatios()
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if err := MissedBars(Bars([]*Report{r})); err != nil || len(r.Ratios) != 5 {
		t.Errorf("%d ratios: %v", len(r.Ratios), err)
	}
	for name, spoil := range map[string]func(x *ConnSide){
		"role":        func(x *ConnSide) { x.Role = "" },
		"connections": func(x *ConnSide) { x.Connections = 0 },
		"times":       func(x *ConnSide) { x.CloseSeconds = 0 },
		"queue_bytes": func(x *ConnSide) { x.QueueBytes = 0 },
		"connect_us":  func(x *ConnSide) { x.ConnectUS = nil },
	} {
		r.Connections = goodSides()
		spoil(&r.Connections[0])
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, spoil := range map[string]func(x *ConnSide){
		"opened a second": func(x *ConnSide) { x.PerSecond-- },
		"bytes an idle":   func(x *ConnSide) { x.OtherBytes++ },
		"idle CPU":        func(x *ConnSide) { x.IdleCPU += 0.1 },
	} {
		r.Connections = goodSides()
		spoil(&r.Connections[0])
		r.SetRatios()
		if err := MissedBars(Bars([]*Report{r})); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "MTU") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
