package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
)

// peerFlags are the flags for the address of the peer.
type peerFlags struct {
	addr    string
	udpPort uint16
	tls     cli.TLS
	broker  string
}

func (f *peerFlags) register(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.addr, "addr", "", what)
	cmd.Flags().StringVar(&f.broker, "broker", "", "socket of an ndbroker that opens AF_XDP, for users without privileges")
	cmd.Flags().Uint16Var(&f.udpPort, "udp-port", 0, "UDP port that carries all ND traffic, the same on both sides (default 14791)")
	f.tls.Register(cmd)
	// Registered above, which excludes the only error.
	_ = cmd.MarkFlagRequired("addr")
}

// secure returns the configurations of the flags. With --reverse and --both the server dials, too, and the client listens. The server
// then verifies the address of the client. The client verifies the server as it does when it dials.
func (f *peerFlags) secure(listens bool) (bench.TLS, error) {
	host, _, _ := net.SplitHostPort(f.addr) // parseAddr accepts no other form
	cfg, err := f.tls.Config(listens, host)
	if cfg == nil || err != nil {
		return bench.TLS{}, err
	}
	dial, serve := cfg.Clone(), cfg.Clone()
	switch {
	case listens:
		dial.ServerName = ""
	case cfg.VerifyConnection == nil: // certificates; without --tls-ca, of the authorities of the machine
		serve.ClientCAs, serve.ClientAuth = cfg.RootCAs, tls.RequireAndVerifyClientCert
	}
	return bench.TLS{Dial: dial, Serve: serve}, nil
}

func newServer() *cobra.Command {
	p := &peerFlags{}
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "server --addr HOST:PORT",
		Short: "Serve measurements that clients ask for, until interrupted",
		Long: `server opens an adapter on the interface that has the address IP and serves one client after the other
until it is interrupted. PORT is an ND port: it has nothing to do with TCP or UDP ports.`,
		Example: `  ndperf server --addr 192.0.2.7:9000
  ndperf server --addr 192.0.2.7:9000 --broker /run/ndbroker/eth0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, err := parseAddr(cmd.Context(), p.addr)
			if err != nil {
				return err
			}
			if err := f.checkDatapath(); err != nil {
				return err
			}
			if err := f.capture.prepare(false, "", ""); err != nil {
				return err
			}
			cfg := bench.NDConfig{Local: addr, UDPPort: p.udpPort, Datapath: f.datapath, Bulk: f.bulk, Broker: p.broker, PCAP: f.capture.file, Snap: f.capture.snap}
			if cfg.TLS, err = p.secure(true); err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	p.register(cmd, "local address and ND port to listen on")
	f.registerDatapath(cmd)
	f.capture.register(cmd)
	return cmd
}

// serve serves clients until the context ends, which is not an error.
func serve(ctx context.Context, cfg bench.NDConfig, stdout io.Writer) error {
	err := bench.Serve(ctx, cfg, func(addr netip.AddrPort, by nd.DatapathInfo) {
		fmt.Fprintf(stdout, "ndperf server: listening on %s, %s; stop with Ctrl-C\n", addr, cli.Datapath(by))
	}, func(line string) {
		fmt.Fprintln(stdout, line)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func newClient() *cobra.Command {
	p := &peerFlags{}
	f := &runFlags{}
	local := netip.Addr{}
	cmd := &cobra.Command{
		Use:   "client --addr HOST:PORT",
		Short: "Measure against an ndperf server on another machine",
		Long: `client opens an adapter on the interface that leads to the server, connects, runs the tests, and prints
latency and bandwidth. Raw AF_XDP and kernel TCP are measured by "ndperf veth" only.`,
		Example: `  ndperf client --addr 192.0.2.7:9000
  ndperf client --addr 192.0.2.7:9000 --tests write_bw --json report.json
  ndperf client --addr 192.0.2.7:9000 --connections 4 --both
  ndperf client --addr 192.0.2.7:9000 --tests write_lat --streams 1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			peer, err := parseAddr(cmd.Context(), p.addr)
			if err != nil {
				return err
			}
			if err := f.checkParallel(); err != nil {
				return err
			}
			specs, err := f.plan()
			if err != nil {
				return err
			}
			if err := f.capture.prepare(false, f.json, f.told.stream); err != nil {
				return err
			}
			cfg := bench.NDConfig{Peer: peer, UDPPort: p.udpPort, Datapath: f.datapath, Bulk: f.bulk, Broker: p.broker, PCAP: f.capture.file, Snap: f.capture.snap, Interval: f.told.interval, Parallel: f.parallel, Reverse: f.reverse}
			if cfg.TLS, err = p.secure(false); err != nil {
				return err
			}
			if local.IsValid() {
				cfg.Local = netip.AddrPortFrom(local, 0)
			}
			return runClient(cmd.Context(), cfg, specs, output{f.json, f.told.stream, cmd.OutOrStdout(), cmd.ErrOrStderr(), renderReport, f.bounds})
		},
	}
	p.register(cmd, "address and ND port of the server")
	cmd.Flags().Var(cli.Addr(&local), "local", "local address to use (default: the route's address towards the server)")
	f.register(cmd)
	f.registerBounds(cmd)
	f.registerParallel(cmd, false)
	f.capture.register(cmd)
	return cmd
}

func runClient(ctx context.Context, cfg bench.NDConfig, specs []bench.Spec, out output) error {
	report := newReport()
	all := besideStreams([]step{{jobs: []bench.Job{{Kind: bench.KindND, Specs: specs}}}}, cfg.Parallel)
	return runSteps(ctx, out, report, all, func(s step, p *progress) error {
		return runStep(s, report, p, func(job bench.Job, sink bench.Sink) error {
			cfg.Parallel = job.Parallel
			return bench.Run(ctx, cfg, specs, sink)
		})
	})
}
