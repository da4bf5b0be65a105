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
