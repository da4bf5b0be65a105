package cli

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/nd"
)

// Network holds the network flags of a command that either listens at an address or connects to it. They are the argument HOST:PORT,
// --listen, --from, --datapath, --udp-port, --broker, and the flags of TLS.
type Network struct {
	At       netip.AddrPort
	Host     string // HOST as the user has typed it, without a zone
	Listens  bool
	From     netip.Addr // the zero Addr selects the route's source address
	Datapath nd.Datapath
	UDPPort  uint16
	Broker   string // socket of an ndbroker; empty for none
	TLS      TLS
}

// oneHost reports whether an address can be the address of one host.
func oneHost(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsMulticast() && a.Unmap() != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// Register registers the flags of a command that takes HOST:PORT as the first of at most most arguments.
func (n *Network) Register(cmd *cobra.Command, most int, listen string) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return Usagef("HOST:PORT is missing (example: 192.0.2.7:7000)")
		case len(args) > most:
			return Usagef("%q is one argument too many", args[most])
		}
		at, ok, err := ResolveAddrPort(cmd.Context(), args[0])
		switch {
		case !ok:
			return Usagef("%q is not HOST:PORT (examples: 192.0.2.7:7000, [2001:db8::7]:7000, node7:7000)", args[0])
		case err != nil:
			return err
		case n.Listens && !oneHost(at.Addr()):
			return Usagef("%q is not the address of one interface, as an adapter needs: choose one (ip address)", args[0])
		case !oneHost(at.Addr()):
			return Usagef("%q is not the address of one host: name the one to connect to", args[0])
		case at.Port() == 0 && !n.Listens:
			return Usagef("%q has no port to connect to: 0 is any free port, for -l, which says what it got", args[0])
		}
		host, _, _ := net.SplitHostPort(args[0]) // it has parts, as ResolveAddrPort found
		n.Host, _, _ = strings.Cut(host, "%")
		n.At = at
		return nil
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 || len(args) == most || n.Listens {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault // complete a file name
	}
	f := cmd.Flags()
	f.BoolVarP(&n.Listens, "listen", "l", false, listen)
	f.Var(Addr(&n.From), "from", "local address (default: the route's source address)")
	f.TextVar(&n.Datapath, "datapath", nd.DatapathAuto, "how packets move: auto, generic, native, udp, ring or tcx")
	f.Uint16Var(&n.UDPPort, "udp-port", nd.DefaultUDPPort, "UDP port of ND traffic, the same on both sides")
	f.StringVar(&n.Broker, "broker", "", "socket of an ndbroker that opens AF_XDP, for users without privileges")
	Complete(cmd, "from", LocalAddrs)
	Complete(cmd, "datapath", Datapaths)
	n.TLS.Register(cmd)
}

// RefuseAsker returns an error for flags of the connecting side if a command listens: --from, and further named flags. They would
// have no effect.
func (n *Network) RefuseAsker(cmd *cobra.Command, names ...string) error {
	if !n.Listens {
		return nil
	}
	if cmd.Flags().Changed("from") {
		return Usagef("--from is for the side that connects, and --listen has its address in HOST:PORT: leave --from out")
	}
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return Usagef("--%s is for the side that connects, and does nothing with --listen: leave it out here, and say it there", name)
		}
	}
	return nil
}

// Listen is nd.Listen with the flags' values.
func (n *Network) Listen(cfg nd.EndpointConfig) (_ *nd.EndpointListener, err error) {
	cfg.Datapath, cfg.UDPPort, cfg.Broker = n.Datapath, n.UDPPort, n.Broker
	if cfg.TLS, err = n.TLS.Config(true, n.Host); err != nil {
		return nil, err
	}
	return nd.Listen(n.At, cfg)
}

// Dial is nd.Dial with the flags' values. The caller calls the returned function instead of closing the endpoint.
func (n *Network) Dial(ctx context.Context, cfg nd.EndpointConfig) (_ *nd.Endpoint, hangUp func() error, err error) {
	cfg.Datapath, cfg.UDPPort, cfg.Broker = n.Datapath, n.UDPPort, n.Broker
	if cfg.TLS, err = n.TLS.Config(false, n.Host); err != nil {
		return nil, nil, err
	}
	closeAdapter := func() error { return nil }
	if n.From.IsValid() {
		a, err := nd.OpenAdapter(nd.AdapterConfig{Address: n.From, UDPPort: n.UDPPort, Datapath: n.Datapath, Broker: n.Broker})
		if err != nil {
			return nil, nil, err
		}
		cfg.Adapter, closeAdapter = a, a.Close
	}
	e, err := nd.Dial(ctx, n.At, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, closeAdapter())
	}
	return e, func() error { return errors.Join(e.Close(), closeAdapter()) }, nil
}

// addrFlag is a flag with an IP address or a host name; it may be empty.
type addrFlag struct{ to *netip.Addr }

// Addr returns a flag value for an IP address or a host name. Empty text is the zero Addr.
func Addr(to *netip.Addr) interface {
	Set(string) error
	String() string
	Type() string
} {
	return addrFlag{to}
}

func (f addrFlag) Set(text string) error {
	if text == "" {
		*f.to = netip.Addr{}
		return nil
	}
	a, ok, err := ResolveHost(context.Background(), text) // flags are parsed before a command has its context; the lookup is bounded
	switch {
	case !ok:
		return errors.New("it is neither an IP address nor the name of a host (examples: 192.0.2.7, 2001:db8::7, node7)")
	case err != nil:
		return err
	}
	*f.to = a
	return nil
}

func (f addrFlag) String() string {
	if f.to == nil || !f.to.IsValid() {
		return ""
	}
	return f.to.String()
}

func (f addrFlag) Type() string { return "HOST" }
