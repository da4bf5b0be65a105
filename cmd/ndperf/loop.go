package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// The addresses of the two sides of loop. Every Linux machine has them.
var loopAddrs = [2]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}

// loopFlags are the values of the flags of loop.
type loopFlags struct {
	runFlags
	baselines []string
	udpPort   uint16
}

func newLoop() *cobra.Command {
	f := &loopFlags{}
	cmd := &cobra.Command{
		Use:   "loop",
		Short: "Measure over UDP sockets on loopback (no privileges)",
		Long: `loop starts two processes on 127.0.0.1 and 127.0.0.2, connects two queue pairs over plain UDP sockets, moves
and verifies real bytes, and prints the figures beside kernel TCP between the same addresses. It needs no
privilege. To measure AF_XDP, use "ndperf veth".`,
		Example: `  ndperf loop                                          everything, half a minute; "ndstat" in another terminal watches
  ndperf loop --duration 300ms                         a quick look
  ndperf loop --tests write_bw --sizes 4K,64K,1M       bandwidth over message size`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLoop(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.registerTests(cmd)
	f.registerParallel(cmd, true)
	f.capture.register(cmd)
	cmd.Flags().StringSliceVar(&f.baselines, "baseline", []string{"tcp"}, "what to measure beside nd: tcp, tools, none")
	registerUDPPort(cmd, &f.udpPort)
	registerTLS(cmd, &f.tls)
	return cmd
}

func runLoop(ctx context.Context, f *loopFlags, stdout, stderr io.Writer) error {
	f.datapath = "udp"
	if err := f.checkParallel(); err != nil {
		return err
	}
	specs, err := f.plan()
	if err != nil {
		return err
	}
	beside, err := parseBaselines(f.baselines)
	if err != nil {
		return err
	}
	if beside.raw {
		return cli.Usagef("--baseline: raw AF_XDP does not work on loopback: choose tcp or none")
	}
	if f.parallel.Several() {
		beside = baselines{}
	}
	mtu, err := loopbackMTU()
	if err != nil {
		return err
	}
	if err := f.capture.prepare(true, f.json, f.told.stream); err != nil {
		return err
	}
	own, err := identity(f.tls)
	if err != nil {
		return err
	}
	report := newReport()
	steps := besideStreams(planSteps(specs, []string{f.datapath}, []int{mtu}, beside, false), f.parallel)
	out := output{f.json, f.told.stream, stdout, stderr, renderReport, f.bounds}
	return runSteps(ctx, out, report, steps, func(s step, p *progress) error {
		return runStep(s, report, p, func(job bench.Job, sink bench.Sink) error {
			f.capture.apply(&job)
			job.UDPPort = f.udpPort
			port, addrs := uint16(ndPort), loopAddrs
			if f.reverse {
				addrs[0], addrs[1] = addrs[1], addrs[0]
			}
			if job.Kind == bench.KindND {
				job.Interval, job.TLS = f.told.interval, own
			}
			if job.Kind != bench.KindND {
				if port, err = freeTCPPort(addrs[1]); err != nil {
					return err
				}
			}
			job.Local.Interface, job.Peer.Interface = "lo", "lo"
			job.Local.Addr, job.Peer.Addr = netip.AddrPortFrom(addrs[0], port), netip.AddrPortFrom(addrs[1], port)
			return runSides(ctx, (*exec.Cmd).Start, (*exec.Cmd).Start, job, sink)
		})
	})
}

// loopbackMTU returns the MTU of the interface with 127.0.0.1.
func loopbackMTU() (int, error) {
	list, err := net.Interfaces()
	if err != nil {
		return 0, fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 {
			return i.MTU, nil
		}
	}
	return 0, errors.New("no loopback interface is up: set it up (ip link set lo up)")
}

// freeTCPPort returns a TCP port without a listener.
func freeTCPPort(at netip.Addr) (uint16, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	if err != nil {
		return 0, fmt.Errorf("find a free TCP port on %s: %w", at, err)
	}
	addr, err := netip.ParseAddrPort(l.Addr().String())
	return addr.Port(), errors.Join(err, l.Close())
}
