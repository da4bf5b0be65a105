package bench

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

// Encrypted connections run every kind of session: one, several, and with the roles reversed. A client with the identity of another run is
// refused.
func TestTLSRuns(t *testing.T) {
	identity, err := NewIdentity()
	testhelp.Must(t, err)
	secure, err := identity.TLS()
	testhelp.Must(t, err)
	other, err := NewIdentity()
	testhelp.Must(t, err)
	stranger, err := other.TLS()
	testhelp.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := NDConfig{Local: netip.MustParseAddrPort("127.0.0.45:9000"), UDPPort: netlabtest.FreePort(t), Datapath: "udp", TLS: secure}
	listening, served := make(chan struct{}), make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	go func() {
		served <- Serve(serving, cfg, func(netip.AddrPort, nd.DatapathInfo) { close(listening) }, func(string) {})
	}()
	select {
	case <-listening:
	case err := <-served:
		t.Fatal(err)
	}
	client := NDConfig{Local: netip.MustParseAddrPort("127.0.0.46:0"), Peer: cfg.Local, UDPPort: cfg.UDPPort, Datapath: "udp", TLS: secure}
	specs := []Spec{{Test: WriteBW, Size: 4096, Duration: 10 * time.Millisecond, Verify: true}}
	for _, how := range []NDConfig{{}, {Parallel: Parallel{Connections: 2, Both: true}}, {Reverse: true}} {
		run := client
		run.Parallel, run.Reverse = how.Parallel, how.Reverse
		got := &collector{}
		testhelp.Must(t, Run(ctx, run, specs, got))
		for _, r := range got.results {
			if !r.Encrypted || !r.Verified {
				t.Errorf("%+v: a result that is not of an encrypted run", r)
			}
		}
	}
	client.TLS = stranger
	if err := Run(ctx, client, specs, &collector{}); !errors.Is(err, nd.ErrConnectionAborted) {
		t.Errorf("an identity of another run: %v", err)
	}
	client.TLS = TLS{}
	if err := Run(ctx, client, specs, &collector{}); !errors.Is(err, nd.CausePeerWantsTLS) {
		t.Errorf("without TLS: %v", err)
	}
	stop()
	<-served
}

// TestEncryptedLatencyBesidePlain: encrypted and plain latency run in turn. The rest runs once, encrypted. Medians are compared, and an
// encrypted Write of the usual size has a bound.
func TestEncryptedLatencyBesidePlain(t *testing.T) {
	rounds, rest := BesidePlain(Job{Kind: KindND, TLS: &Identity{}, Specs: []Spec{
		{Test: WriteLat, Size: 64, Duration: time.Second}, {Test: WriteLat, Size: 4096}, {Test: ReadLat, Size: 64}, {Test: WriteLat, Size: 64, Event: true}, {Test: WriteBW},
	}})
	if len(rounds) != 2*plainRounds || len(rest) != 1 || rest[0].Kind != KindND || len(rest[0].Specs) != 3 {
		t.Fatalf("%d rounds, then %+v", len(rounds), rest)
	}
	for i, j := range rounds {
		if kind := []string{KindND, KindNDPlain}[i%2]; j.Kind != kind || len(j.Specs) != 2 || j.Specs[0].Duration != time.Second/plainRounds {
			t.Errorf("round %d is %+v, want %s", i, j, kind)
		}
	}
	r := NewReport()
	var secure []Result
	plain := &collector{}
	for i := range plainRounds {
		x := Result{
			Test: WriteLat, Mode: ModePoll, Size: 64, MTU: 1500, Datapath: "tcx", Encrypted: true, Ops: 1e6,
			LatIs: HalfRoundTrip, LatUS: &Latency{P50: float64(38 + i), P99: 99},
		}
		secure = append(secure, x)
		x.Size, x.LatUS = 4096, &Latency{P50: 80, P99: 99}
		secure = append(secure, x)
		x.Size, x.LatUS = 64, &Latency{P50: float64(10 + i*10), P99: 99}
		plainSink{plain}.Result(x)
	}
	r.Results, r.Baselines = Medians(secure), Best(plain.baselines)
	by := ratiosByName(r)
	x, ok := by["write_lat p50 / nd_plain, encrypted"]
	if !ok || len(r.Results) != 2 || x.Value != 40.0/30 || x.Bound == nil || x.OK {
		t.Errorf("ratio %+v of %d results, want a missed bound", x, len(r.Results))
	}
}
