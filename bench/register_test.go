package bench

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestRegistrations: both kinds are measured at each size that fits, and the figures are in order. A run whose context ends stops.
func TestRegistrations(t *testing.T) {
	cfg := NDConfig{Local: netip.MustParseAddrPort("127.0.0.1:0"), UDPPort: netlabtest.FreePort(t), Datapath: "udp"}
	var got []Registration
	sizes := []int{1, 8 << 10, arenaBytes + 1}
	if err := Registrations(t.Context(), cfg, sizes, time.Millisecond, func(x Registration) { got = append(got, x) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 { // the last size exceeds what an adapter provides
		t.Fatalf("%d results: %+v", len(got), got)
	}
	for i, x := range got {
		if err := x.sane(); err != nil || x.Size != sizes[i/2] || x.What != []string{RegisterMemory, AllocateMemory}[i%2] {
			t.Errorf("%+v: %v", x, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Registrations(ended, cfg, sizes, time.Hour, func(Registration) { t.Error("a result") }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestRegistrationsAreJudged: a report with impossible figures is refused.
func TestRegistrationsAreJudged(t *testing.T) {
	l := &Latency{Min: 1, P50: 2, P99: 3}
	good := Registration{What: RegisterMemory, Size: 4096, Datapath: "udp", Ops: 1, Seconds: 1, PerSecond: 1, RegisterUS: l, CloseUS: l}
	r := NewReport()
	r.Registrations = []Registration{good}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(x *Registration){
		"nothing done": func(x *Registration) { x.Ops = 0 },
		"no time":      func(x *Registration) { x.Seconds = 0 },
		"no rate":      func(x *Registration) { x.PerSecond = 0 },
		"no latency":   func(x *Registration) { x.RegisterUS = nil },
		"out of order": func(x *Registration) { x.CloseUS = &Latency{P50: 2, P99: 1} },
		"unknown":      func(x *Registration) { x.What = "bind" },
		"no size":      func(x *Registration) { x.Size = 0 },
		"no datapath":  func(x *Registration) { x.Datapath = "" },
	} {
		r.Registrations[0] = good
		if spoil(&r.Registrations[0]); r.Validate() == nil {
			t.Errorf("%s passes", name)
		}
	}
}
