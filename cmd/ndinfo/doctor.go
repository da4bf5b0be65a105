package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// doctorFlags are the values of the flags of doctor.
type doctorFlags struct {
	datapath nd.Datapath
	udpPort  uint16
	peer     netip.Addr
	selfTest bool
	duration time.Duration
}

// diagnosis is the output of doctor.
type diagnosis struct {
	Works    bool              `json:"works"` // on at least one interface
	Reports  []ndhealth.Report `json:"reports"`
	Down     []string          `json:"down,omitempty"`   // interfaces without a report, because they are down and have no address
	Unseen   []string          `json:"unseen,omitempty"` // facts that could not be read, and why
	SelfTest *trial            `json:"selftest,omitempty"`
}

func newDoctor(asJSON *bool) *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor [IFACE]",
		Short: "Say what keeps ND from running, and the command that helps",
		Long: `doctor examines one interface, or all that have an address: kernel, capabilities, driver, queues, MTU,
rings and buffers, qdisc, other XDP programs, the UDP port, firewall rules, NAPI knobs, IOMMU and memory. For each finding
it says what it saw, why that matters, and the command that helps.

With --peer it also asks whether an adapter answers at an address. With --selftest it opens the adapter on
the interface, and moves and verifies bytes for some seconds: over AF_XDP on a veth pair of its own when it
is root, else over plain UDP sockets on the loopback interface.

Exit status: 0 when ND can run on an interface, 1 when it cannot or something failed, 2 for a wrong command line.`,
		Example: `  sudo ndinfo doctor                            every interface
  sudo ndinfo doctor eth0 --selftest            one, and five seconds of bytes
  sudo ndinfo doctor eth0 --peer 192.0.2.7      ask whether an adapter answers there
  ndinfo doctor eth0 --datapath udp             what an ordinary user can have
  ndinfo doctor --json | jq '.reports[].findings[] | select(.severity!="ok")'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.InterfaceNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("duration") && !f.selfTest {
				return cli.Usagef("--duration is the time of --selftest: add --selftest, or leave --duration out")
			}
			if f.duration <= 0 {
				return cli.Usagef("--duration %v is not a positive duration", f.duration)
			}
			d, err := diagnose(cmd.Context(), f, args)
			if err != nil {
				return err
			}
			if *asJSON {
				err = writeJSON(cmd.OutOrStdout(), d)
			} else {
				renderDiagnosis(cmd.OutOrStdout(), d, cli.Width(cmd.OutOrStdout()))
			}
			if err == nil && !d.Works {
				err = errUnfit
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.TextVar(&f.datapath, "datapath", nd.DatapathAuto, "how packets are meant to move: auto, generic, native, udp, ring or tcx")
	fl.Uint16Var(&f.udpPort, "udp-port", nd.DefaultUDPPort, "UDP port of ND traffic")
	fl.Var(cli.Addr(&f.peer), "peer", "address of a machine whose adapter is asked for an answer; needs IFACE")
	fl.BoolVar(&f.selfTest, "selftest", false, "open the adapter, and move and verify bytes")
	fl.DurationVar(&f.duration, "duration", 5*time.Second, "how long the self test moves bytes")
	cli.Complete(cmd, "datapath", cli.Datapaths)
	return cmd
}

func diagnose(ctx context.Context, f *doctorFlags, args []string) (*diagnosis, error) {
	cfg := ndhealth.Config{Datapath: f.datapath, UDPPort: f.udpPort, Peer: f.peer}
	if f.peer.IsValid() && len(args) == 0 {
		return nil, cli.Usagef("--peer needs the interface that leads there: see ip route get %s", f.peer)
	}
	names, err := interfaces()
	if len(args) > 0 {
		names, err = args, nil
	}
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no interface has an address: see ip address")
	}
	d := &diagnosis{}
	if len(args) == 0 {
		if d.Down, err = downAndBare(); err != nil {
			d.Unseen = append(d.Unseen, unseenDown(err))
		}
	}
	for _, name := range names {
		cfg.Interface = name
		report, err := ndhealth.Examine(ctx, cfg)
		if err != nil {
			return nil, err
		}
		d.Reports = append(d.Reports, report)
	}
	fit := slices.IndexFunc(d.Reports, func(r ndhealth.Report) bool { return r.Works() })
	d.Works = fit >= 0
	if d.Works && f.selfTest {
		d.SelfTest = selfTest(ctx, &d.Reports[fit], f)
		d.Works = d.SelfTest.Works
	}
	return d, nil
}

// interfaces returns the interfaces to examine. If a sandbox forbids listing interfaces, it returns the interfaces of adapters.
func interfaces() ([]string, error) {
	names, err := cli.Interfaces()
	if err == nil {
		return names, nil
	}
	list, err := ndhealth.Adapters()
	for _, a := range list {
		if !a.Address.IsLoopback() {
			names = append(names, a.Interface)
		}
	}
	if len(names) == 0 && len(list) > 0 {
		names = append(names, list[0].Interface)
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), err
}

// downAndBare returns the interfaces that are down and have no address. Setting an interface down removes its IPv6 addresses on
// many machines.
func downAndBare() ([]string, error) {
	down, err := ndhealth.Down()
	if err != nil {
		return nil, err
	}
	return namesOf(slices.DeleteFunc(down, func(i ndhealth.Interface) bool { return len(i.Addresses) > 0 })), nil
}
