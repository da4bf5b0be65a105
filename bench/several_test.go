package bench

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// serving runs a server over plain sockets until the test ends, and returns the configuration for a client. Log lines of the server's
// sessions go to log.
func serving(t *testing.T, log func(string)) NDConfig {
	t.Helper()
	cfg := NDConfig{Local: netip.MustParseAddrPort("127.0.0.42:9000"), UDPPort: netlabtest.FreePort(t), Datapath: "udp"}
	ctx, stop := context.WithCancel(t.Context())
	listening, served := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		_ = Serve(ctx, cfg, func(netip.AddrPort, nd.DatapathInfo) { close(listening) }, log)
	}()
	t.Cleanup(func() { stop(); <-served })
	select {
	case <-listening:
	case <-served:
		t.Fatal("the server does not listen")
	}
	return NDConfig{Local: netip.MustParseAddrPort("127.0.0.41:0"), Peer: cfg.Local, UDPPort: cfg.UDPPort, Datapath: "udp"}
}

// TestClientOfSeveralConnections: a server runs tests on as many connections, and in the directions, that a client requests, for one
// client after the other.
func TestClientOfSeveralConnections(t *testing.T) {
	client := serving(t, func(line string) { t.Log(line) })
	lat := []Spec{{Test: ReadLat, Duration: 20 * time.Millisecond, Verify: true}, {Test: SendLat, Size: 100, Duration: 20 * time.Millisecond, Verify: true}}
	bw := []Spec{{Test: WriteBW, Duration: 20 * time.Millisecond, Verify: true}, {Test: SendBW, Size: 5000, Duration: 20 * time.Millisecond, Verify: true}}
	for _, c := range []struct {
		name       string
		how        Parallel
		reverse    bool
		specs      []Spec
		directions []string // directions of the results of each spec
	}{
		{"three", Parallel{Connections: 3}, false, bw, []string{""}},
		{"both ways", Parallel{Connections: 2, Both: true}, false, bw, []string{DirectionBack, DirectionForth}},
		{"beside a stream", Parallel{Streams: 1}, false, lat, []string{""}},
		{"reverse", Parallel{}, true, slices.Concat(lat, bw), []string{""}},
		{"three, reverse, beside a stream", Parallel{Connections: 3, Streams: 1}, true, bw, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, got := client, &collector{}
			cfg.Parallel, cfg.Reverse = c.how, c.reverse
			if err := Run(t.Context(), cfg, c.specs, got); err != nil {
				t.Fatal(err)
			}
			if len(got.results) != len(c.specs)*len(c.directions) {
				t.Fatalf("%d results of %d specs", len(got.results), len(c.specs))
			}
			for i, s := range c.specs {
				var directions []string
				for _, r := range got.results[i*len(c.directions) : (i+1)*len(c.directions)] {
					directions = append(directions, r.Direction)
					if err := sane(r.Ops, r.Bytes, r.Seconds, r.Gbps, r.Mops, r.Test, r.LatUS); err != nil || r.Test != s.Test || !r.Verified || r.Connections != max(c.how.Connections, 1) || r.Streams != c.how.Streams {
						t.Errorf("%s: %+v: %v", s, r, err)
					}
				}
				if slices.Sort(directions); !slices.Equal(directions, c.directions) {
					t.Errorf("%s: directions are %q, want %q", s, directions, c.directions)
				}
			}
		})
	}
}

// TestServerTellsIntervals: a client receives the intervals that the server measures while the test runs.
func TestServerTellsIntervals(t *testing.T) {
	cfg, got := serving(t, func(string) {}), &collector{}
	cfg.Reverse, cfg.Interval = true, MinInterval
	if err := Run(t.Context(), cfg, []Spec{{Test: WriteBW, Duration: 3*MinInterval + MinInterval/2, Verify: true}}, got); err != nil {
		t.Fatal(err)
	}
	if len(got.intervals) == 0 || len(got.results) != 1 || got.intervals[0].Test != WriteBW {
		t.Errorf("%d results, intervals %+v", len(got.results), got.intervals)
	}
}

// TestServerOutlivesItsClients: if a client ends during several sessions, whichever side measures, the server serves the next client.
func TestServerOutlivesItsClients(t *testing.T) {
	client := serving(t, func(line string) { t.Log(line) })
	for _, c := range []NDConfig{{Parallel: Parallel{Connections: 2}}, {Parallel: Parallel{Connections: 2, Both: true}}, {Reverse: true}} {
		cfg := client
		cfg.Parallel, cfg.Reverse = c.Parallel, c.Reverse
		ctx, cancel := context.WithCancel(t.Context())
		sink := &leaving{cancel: cancel}
		if err := Run(ctx, cfg, []Spec{{Test: WriteBW, Duration: time.Minute}}, sink); err == nil {
			t.Errorf("%+v: a run that was canceled succeeded", c)
		}
		cancel()
		if err := Run(t.Context(), client, []Spec{{Test: SendLat, Duration: time.Millisecond}}, &collector{}); err != nil {
			t.Errorf("after %+v: %v", c, err)
		}
	}
}

// TestServerOutlivesUnopenedSessions: if a client requests sessions, opens none and sends bye, the server serves the next client.
func TestServerOutlivesUnopenedSessions(t *testing.T) {
	client := serving(t, func(line string) { t.Log(line) })
	a, err := openAdapter(client)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	q, err := dialSession(t.Context(), a, client)
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	err = q.control.send(t.Context(), controlMessage{Plan: &planMessage{How: Parallel{Connections: 2}}})
	if err == nil {
		_, err = q.control.expect(t.Context())
	}
	if err = errors.Join(err, q.bye(t.Context())); err != nil {
		t.Fatal(err)
	}
	m, err := q.control.recv(t.Context())
	if err == nil || !strings.Contains(err.Error(), errUnended.Error()) {
		t.Errorf("the server says %+v, %v", m, err)
	}
	q.close()
	if err := Run(t.Context(), client, []Spec{{Test: SendLat, Duration: time.Millisecond}}, &collector{}); err != nil {
		t.Error(err)
	}
}

// leaving is a client that ends after a test has started.
type leaving struct {
	collector
	cancel func()
}

func (l *leaving) Started(Spec) { l.cancel() }

// TestPlansAreChecked: a server refuses plans that no client of this project sends.
func TestPlansAreChecked(t *testing.T) {
	for _, c := range []struct {
		plan planMessage
		want string // text in the error; empty for none
	}{
		{planMessage{}, ""},
		{planMessage{How: Parallel{Connections: 60, Streams: 4}}, ""},
		{planMessage{How: Parallel{Connections: 2, Both: true}, Ports: []uint16{1, 2}}, ""},
		{planMessage{Reverse: true, Interval: MinInterval, Ports: []uint16{1}}, ""},
		{planMessage{How: Parallel{Connections: 60, Streams: 5}}, "at most 64"},
		{planMessage{How: Parallel{Connections: -1}}, "at most 64"},
		{planMessage{How: Parallel{Streams: -1}}, "at most 64"},
		{planMessage{How: Parallel{Connections: 1 << 62, Streams: 1 << 62}}, "at most 64"},
		{planMessage{How: Parallel{Both: true, Streams: 1}, Ports: []uint16{1, 2}}, "both directions"},
		{planMessage{How: Parallel{Both: true}, Reverse: true, Ports: []uint16{1}}, "both directions"},
		{planMessage{Interval: 1}, "interval"},
		{planMessage{Interval: -1}, "interval"},
		{planMessage{Ports: []uint16{1}}, "0 sessions"},
		{planMessage{Reverse: true}, "1 sessions"},
		{planMessage{Reverse: true, Ports: []uint16{0}}, "1 sessions"},
	} {
		err := c.plan.check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.plan, err, c.want)
		}
	}
}
