package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
)

func main() { cli.Main(newRoot()) }

// flags are the flags of ndbroker.
type flags struct {
	terms                datapath.Terms
	netns, socket        string
	mode                 string
	allowUIDs, allowGIDs []uint
	allowCgroups         []string
	allowFrom            string
}

// defaultUDPPort is the UDP port of ND traffic (PROTOCOL §2).
const defaultUDPPort = 14791

func newRoot() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "ndbroker --interface NAME --allow-uid UID",
		Short: "Open AF_XDP for processes without privileges",
		Long: `ndbroker attaches the XDP program to an interface, opens and binds one AF_XDP socket for each receive queue, and
passes the sockets and their memory to a process that asks at its Unix socket. That process needs no privileges:
AdapterConfig.Broker in package nd, --broker of "ndperf server" and "ndperf client". The default socket is the interface's
name in /run/ndbroker. A program that cannot open AF_XDP itself, and was not told which datapath to use, asks there if the
broker belongs to root or to its own user.

One process at a time uses AF_XDP on the interface. Its lease ends when the process ends, or when ndbroker ends: then the
process's adapter is removed, and all traffic goes to the kernel again. If a process of the same user still keeps one of
the sockets when the next process asks, ndbroker kills it, because nothing else frees a receive queue.

Other processes get a ring beside their plain UDP sockets (Linux 6.6). Only small packets for their UDP port arrive in the ring.
They send through their sockets. With --mode ring all processes get rings, and none gets AF_XDP: use it
where clients do not trust each other. When ndbroker ends, a process with a ring continues without it.

A client may ask if any rule admits it: --allow-uid names its user, --allow-gid its primary group or a supplementary
one, --allow-cgroup the cgroup v2 of its process or one above that (Linux 6.5). The broker checks the user and the groups with
which the client connected. --allow-from is a file of these rules, one a line: "uid 1000" or just "1000", "gid 1500", "cgroup
/system.slice/app.service"; comments begin with # at the start of a line or behind a space. At SIGHUP ndbroker reads the file again; existing leases
stay.

If systemd's socket activation starts ndbroker, it listens at the socket that it inherits.

The sockets of clients copy packets, even if the driver has zero-copy. With zero-copy all packets that arrive on the
interface, for any receiver, pass through memory that the client reads. --zero-copy allows zero-copy.

It needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK, and CAP_SYS_ADMIN with --netns; for rings CAP_NET_ADMIN
and CAP_BPF are enough. A process with AF_XDP sockets can send any frame from the interface. docs/OPERATING.md#brokers-and-containers says what that means, and how to run it.

Exit status: 0 after an interruption, 1 when something failed, 2 for a wrong command line.`,
		Example: `  ndbroker --interface eth0 --allow-uid 1000
  ndbroker --interface eth0 --allow-cgroup /system.slice/app.service
  ndbroker --interface eth0 --netns 4711 --socket /run/pod --allow-uid 65534   the namespace of process 4711
  ndbroker --interface net1 --netns /run/netns/blue --allow-uid 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), f, cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.terms.Interface, "interface", "", "interface to lease to clients")
	fl.StringVar(&f.netns, "netns", "", "network namespace of the interface: a file, or the id of a process in it (default: this one)")
	fl.StringVar(&f.socket, "socket", "", "path of the Unix socket for clients; removed at the end (default: "+broker.Directory+"/NAME)")
	fl.BoolVar(&f.terms.ZeroCopy, "zero-copy", false, "allow zero-copy, by which a client sees every packet that arrives on the interface")
	fl.StringVar(&f.mode, "mode", "auto", "XDP mode of AF_XDP sockets: auto, generic or native; \"ring\" leases BPF rings instead of AF_XDP sockets")
	fl.UintSliceVar(&f.allowUIDs, "allow-uid", nil, "admitted users, as numbers in this process's user namespace")
	fl.UintSliceVar(&f.allowGIDs, "allow-gid", nil, "admitted groups, as numbers in this process's user namespace")
	fl.StringArrayVar(&f.allowCgroups, "allow-cgroup", nil,
		"cgroup with admitted processes, child cgroups included: its path from the root of cgroup2")
	fl.Uint16Var(&f.terms.UDPPort, "udp-port", defaultUDPPort, "UDP port of ND traffic; further adapters of an address get other ports")
	fl.StringVar(&f.allowFrom, "allow-from", "", "file with more admission rules, one a line, read again at SIGHUP")
	_ = cmd.MarkFlagRequired("interface") // registered above, which excludes the only error
	cli.Complete(cmd, "interface", cli.InterfaceNames)
	cli.Complete(cmd, "mode", modes)
	return cli.Root(cmd)
}

// find looks up an interface by a name or an alternative name, and replaces it by the interface's name. It fails if the interface
// does not exist. A broker that waited for the interface would refuse every client, for a reason that nobody reads.
func find(name *string) error {
	found, err := host.InterfaceNamed(*name)
	if err != nil {
		return fmt.Errorf("--interface %s: %w (ip link lists the interfaces)", *name, err)
	}
	*name = found
	return nil
}

// modes completes the values of --mode.
func modes(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"auto", "generic", "native", "ring"}, cobra.ShellCompDirectiveNoFileComp
}

func run(ctx context.Context, f *flags, out io.Writer) (err error) {
	if f.terms.Datapath, err = plan.Parse(f.mode); err != nil || f.terms.Datapath == plan.UDP || f.terms.Datapath == plan.TCX {
		return cli.Usagef("--mode %q is unknown: choose auto, generic, native or ring", f.mode)
	}
	if f.terms.UDPPort == 0 {
		return cli.Usagef("--udp-port 0 is out of range: 1 to 65535")
	}
	if f.terms.ZeroCopy && f.terms.Datapath == plan.Ring {
		return cli.Usagef("--zero-copy applies to AF_XDP sockets, which --mode ring does not lease: leave --zero-copy out")
	}
	allow, err := f.policy()
	if err != nil {
		return err
	}
	if allow.Empty() {
		return cli.Usagef("no rule admits a client: add a rule with --allow-uid, --allow-gid or --allow-cgroup, or a file of rules with --allow-from")
	}
	place, err := openNamespace(f.netns)
	if err != nil {
		return fmt.Errorf("--netns %s: %w", f.netns, err)
	}
	defer place.close()
	if err := place.do(func() error { return find(&f.terms.Interface) }); err != nil {
		return err
	}
	l, err := f.listen()
	if err != nil {
		return err
	}
	forges := "; a process with AF_XDP can send packets under other addresses (--mode ring leases no AF_XDP)"
	if f.terms.Datapath == plan.Ring {
		forges = "; rings only"
	}
	fmt.Fprintf(out, "ndbroker: %s for %v at %s%s; stop with Ctrl-C\n", f.terms.Interface, &allow, f.socket, forges)
	if lacks := f.terms.Missing(); len(lacks) > 0 {
		fmt.Fprintf(out, "ndbroker: every client will be refused: missing %s: run it as root, or grant them with setcap\n", strings.Join(lacks, ", "))
	}
	s := &broker.Server{
		Allow: allow,
		Open: func(r broker.Request) (opened broker.Opened, err error) {
			err = place.do(func() error {
				opened, err = datapath.OpenBrokered(&r, f.terms)
				return err
			})
			return opened, err
		},
		OpenRing: func(r broker.Request) (opened broker.Opened, err error) {
			err = place.do(func() error {
				opened, err = datapath.OpenBrokeredRing(&r, f.terms)
				return err
			})
			return opened, err
		},
		Log: func(line string) { fmt.Fprintln(out, "ndbroker:", line) },
	}
	defer f.reloadRules(s, allow)()
	return s.Serve(ctx, l)
}
