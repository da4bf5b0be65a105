package bench

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/nd"
)

// TestNDOverVeth runs every test in both modes between two namespaces. The figures do not matter. The test checks that every byte arrives
// and every phase ends.
func TestNDOverVeth(t *testing.T) {
	for _, mode := range []string{ModePoll, ModeEvent} {
		t.Run(mode, func(t *testing.T) {
			pair, job := newPair(t, netlab.PairConfig{MTU: 9000})
			job.Kind = KindND
			specs, err := Plan(Tests(), nil, Spec{
				MTU: 9000, Duration: 30 * time.Millisecond, Verify: true, Event: mode == ModeEvent,
			})
			if err != nil {
				t.Fatal(err)
			}
			job.Specs = append(specs, // odd sizes: one byte, and a multiple of no power of two
				Spec{Test: WriteLat, Size: 1, Duration: 10 * time.Millisecond, Verify: true, Event: mode == ModeEvent},
				Spec{Test: SendBW, Size: 70001, Duration: 10 * time.Millisecond, Verify: true, Event: mode == ModeEvent},
				Spec{Test: ReadBW, Size: 70001, Duration: 10 * time.Millisecond, Verify: true, Event: mode == ModeEvent},
				Spec{Test: WriteBW, Size: 70001, Duration: 10 * time.Millisecond, Verify: true, Event: mode == ModeEvent},
				// several entries, and several of these at once
				Spec{Test: WriteLat, Size: 64, Entries: 3, Duration: 10 * time.Millisecond, Verify: true, Event: mode == ModeEvent},
				Spec{Test: WriteBW, Size: 70001, Entries: 16, Depth: 20, Duration: 10 * time.Millisecond, Verify: true, Event: mode == ModeEvent},
				Spec{Test: ReadBW, Size: 70001, Entries: 7, Depth: 20, Duration: 10 * time.Millisecond, Verify: true, Event: mode == ModeEvent},
				Spec{Test: SendBW, Size: 4096, Entries: 2, Depth: 20, Duration: 10 * time.Millisecond, Verify: true, Event: mode == ModeEvent},
			)
			got := runBoth(t, job, pair.A.Do, pair.B.Do)
			if len(got.results) != len(job.Specs) {
				t.Fatalf("%d results of %d specs", len(got.results), len(job.Specs))
			}
			for i, r := range got.results {
				s := job.Specs[i]
				if r.Test != s.Test || r.Size != s.Size || r.Mode != mode || !r.Verified || r.Datapath == "" {
					t.Errorf("%s: result is %+v", s, r)
				}
				if err := sane(r.Ops, r.Bytes, r.Seconds, r.Gbps, r.Mops, r.Test, r.LatUS); err != nil {
					t.Errorf("%s: %v", s, err)
				}
				if s.Test.IsLatency() != (r.LatUS != nil) {
					t.Errorf("%s: latency is %+v", s, r.LatUS)
				}
				enough := r.Ops > 100 // some requests were sampled
				if r.PartsUS.sane() != nil || enough && (r.PartsUS == nil || s.Test == ReadLat && r.PartsUS.Completion == 0) {
					t.Errorf("%s: parts are %+v", s, r.PartsUS)
				}
				t.Logf("%s: %.2f Gb/s %.3f Mop/s %+v, %.3f allocations, %d resent, %+v", s, r.Gbps, r.Mops, r.LatUS, r.AllocsPerOp, r.Retransmits, r.PartsUS)
			}
		})
	}
}

func TestNDPeerAbsent(t *testing.T) {
	pair, job := newPair(t, netlab.PairConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cfg := NDConfig{Local: netip.AddrPortFrom(job.Local.Addr.Addr(), 0), Peer: job.Peer.Addr}
	err := pair.A.Do(func() error { return Run(ctx, cfg, []Spec{{Test: WriteLat}}, &collector{}) })
	if err == nil || !strings.Contains(err.Error(), job.Peer.Addr.String()) {
		t.Errorf("error is %v, want one that names %s", err, job.Peer.Addr)
	}
}

// TestServeEndsWithItsAdapter: a server whose interface was removed reports it once, and ends.
func TestServeEndsWithItsAdapter(t *testing.T) {
	pair, job := newPair(t, netlab.PairConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := pair.B.Do(func() error {
		return Serve(ctx, NDConfig{Local: job.Peer.Addr}, func(netip.AddrPort, nd.DatapathInfo) {
			cmd := exec.CommandContext(ctx, "ip", "link", "delete", pair.NameB)
			if err := errors.Join(pair.B.StartProcess(cmd), cmd.Wait()); err != nil {
				t.Error(err)
			}
		}, func(s string) { t.Errorf("it says %q", s) })
	})
	if !errors.Is(err, nd.ErrDeviceRemoved) || !strings.Contains(err.Error(), "start the server again") {
		t.Errorf("it ended with %v", err)
	}
}

// TestServeGoesOn lets two requesters come one after the other, and an unknown client in between.
func TestServeGoesOn(t *testing.T) {
	pair, job := newPair(t, netlab.PairConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	listening, served := make(chan netip.AddrPort, 1), make(chan error, 1)
	serverCtx, stop := context.WithCancel(ctx)
	go func() {
		served <- pair.B.Do(func() error {
			return Serve(serverCtx, NDConfig{Local: job.Peer.Addr}, func(a netip.AddrPort, by nd.DatapathInfo) {
				if by.Reason == "" {
					t.Errorf("it does not say why it has datapath %v", by.Datapath)
				}
				listening <- a
			}, func(s string) { t.Log(s) })
		})
	}()
	select {
	case <-listening:
	case err := <-served:
		t.Fatal(err)
	}
	cfg := NDConfig{Local: netip.AddrPortFrom(job.Local.Addr.Addr(), 0), Peer: job.Peer.Addr}
	for range 2 {
		err := pair.A.Do(func() error { return refusedStranger(ctx, cfg) })
		if err != nil {
			t.Error(err)
		}
		sink := &collector{}
		specs := []Spec{{Test: SendBW, Size: 4096, Duration: 5 * time.Millisecond, Verify: true}}
		if err := pair.A.Do(func() error { return Run(ctx, cfg, specs, sink) }); err != nil {
			t.Fatal(err)
		}
		if len(sink.results) != 1 {
			t.Errorf("%d results, want 1", len(sink.results))
		}
	}
	stop()
	if err := <-served; err == nil || serverCtx.Err() == nil {
		t.Errorf("Serve ended with %v before it was stopped", err)
	}
}

// refusedStranger connects with private data that no ndperf sends.
func refusedStranger(ctx context.Context, cfg NDConfig) error {
	a, err := openAdapter(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }() // only the refusal matters
	s, err := newStation(a, TLS{})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.control.link.dial(ctx, cfg.Local.Addr(), cfg.Peer, "who is there"); err == nil {
		return errStrangerServed
	}
	return nil
}

var errStrangerServed = errorString("a stranger was served")

type errorString string

func (e errorString) Error() string { return string(e) }
