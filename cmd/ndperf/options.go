package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
)

// runFlags are the flags of veth, loop and client: what to measure, and where to report it.
type runFlags struct {
	tests, sizes []string
	duration     time.Duration
	depth, list  int
	entries      int
	parallel     bench.Parallel
	reverse      bool
	datapath     string
	bulk         string
	poll, event  bool
	verify       bool
	json         string
	bounds       bool
	tls          bool // of commands that start both sides
	told         streamFlags
	capture      captureFlags // for commands that have these flags
}

// Smallest and largest link MTU: 1280 is the minimum of IPv6, and enough for a handshake; 65535 is the maximum of a veth pair.
const (
	minMTU = 1280
	maxMTU = 65535
)

func (f *runFlags) register(cmd *cobra.Command) {
	f.registerTests(cmd)
	f.registerDatapath(cmd)
}

// registerTests registers all flags except the datapath.
func (f *runFlags) registerTests(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.tests, "tests", nil, "tests to run (default all): "+testNames())
	fl.StringSliceVar(&f.sizes, "sizes", nil, "message sizes such as 64,4K or 64-64K, which doubles; all is 2 bytes to 8M (default 64 for latency and rate, 1M for bandwidth)")
	fl.IntVar(&f.depth, "depth", 0, "operations outstanding (default 1 for latency, up to 64 for bandwidth, 512 for the rate)")
	fl.IntVar(&f.list, "list", 0, "operations posted together (default 32 for the rate, else 1)")
	fl.IntVar(&f.entries, "entries", 0, fmt.Sprintf("pieces of memory that each operation gathers or scatters, 1 to %d (default 1)", bench.MaxEntries))
	fl.DurationVar(&f.duration, "duration", bench.DefaultDuration, "measured time of each test")
	fl.BoolVar(&f.poll, "poll", false, "poll the completion queues (the default)")
	fl.BoolVar(&f.event, "event", false, "sleep until a completion arrives instead of polling")
	fl.BoolVar(&f.verify, "verify", true, "check that each operation transferred its bytes, and at the end all bytes of the last operations")
	registerJSON(cmd, &f.json)
	f.told.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("poll", "event")
}

// registerBounds registers the flag --bounds.
func (f *runFlags) registerBounds(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.bounds, "bounds", false, "print this project's bounds; exit with status 1 if a figure misses its bound")
}

const oneOfBulk = "auto, off or only"

const oneOfDatapaths = "auto, generic, native, udp, ring or tcx"

// registerJSON registers the flag --json.
func registerJSON(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "json", "", "write the report as JSON to this file, - for standard output")
}

// registerUDPPort registers --udp-port for commands that start both sides.
func registerUDPPort(cmd *cobra.Command, to *uint16) {
	cmd.Flags().Uint16Var(to, "udp-port", 0, "UDP port that carries all ND traffic (default 14791)")
}

// registerTLS registers --tls for commands that start both sides.
func registerTLS(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "tls", false, "encrypt the connections of ND and of TCP; certificates are made for each run")
}

// identity makes the certificate of a run, or returns nil without --tls.
func identity(encrypt bool) (*bench.Identity, error) {
	if !encrypt {
		return nil, nil
	}
	return bench.NewIdentity()
}

// registerDatapath registers the flag --datapath.
func registerDatapath(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "datapath", "auto", "how packets move: "+oneOfDatapaths)
	cli.Complete(cmd, "datapath", cli.Datapaths)
}

// checkDatapath returns an error for an unknown datapath.
func checkDatapath(name string) error {
	if _, err := nd.ParseDatapath(name); err != nil {
		return cli.Usagef("--datapath %q is unknown: choose %s", name, oneOfDatapaths)
	}
	return nil
}

// placeFlags are the flags of commands that start both processes: where to run them, and where to report.
type placeFlags struct {
	loop     bool
	datapath string
	udpPort  uint16
	json     string
	tls      bool
}

func (f *placeFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.loop, "loop", false, "plain UDP sockets on 127.0.0.1 and 127.0.0.2 instead of a veth pair")
	registerDatapath(cmd, &f.datapath)
	registerUDPPort(cmd, &f.udpPort)
	registerJSON(cmd, &f.json)
	registerTLS(cmd, &f.tls)
	cmd.MarkFlagsMutuallyExclusive("loop", "datapath")
}

// needsRoot returns an error if the process lacks the rights for the command.
func (f *placeFlags) needsRoot(command string) error {
	if f.loop || os.Geteuid() == 0 {
		return nil
	}
	return errors.New(command + " makes network namespaces and loads an XDP program, which needs root: run it with sudo, or with --loop")
}

func (f *runFlags) registerDatapath(cmd *cobra.Command) {
	registerDatapath(cmd, &f.datapath)
	cmd.Flags().StringVar(&f.bulk, "bulk", "auto", "a bulk lane beside AF_XDP: "+oneOfBulk)
}

func (f *runFlags) checkDatapath() error {
	if err := checkDatapath(f.datapath); err != nil {
		return err
	}
	if !slices.Contains([]string{"", "auto", "off", "only"}, f.bulk) {
		return cli.Usagef("--bulk %q is unknown: choose %s", f.bulk, oneOfBulk)
	}
	if d, _ := nd.ParseDatapath(f.datapath); f.bulk == "only" && d.OverSockets() { // valid, as checked above
		return cli.Usagef("--bulk only needs AF_XDP, which --datapath %s does not have: leave --bulk out, or choose auto, generic, native or tcx", f.datapath)
	}
	return nil
}

// registerParallel registers the flags for several connections. rivals says whether the command also measures rivals, which use one
// connection only.
func (f *runFlags) registerParallel(cmd *cobra.Command, rivals bool) {
	fl := cmd.Flags()
	without := ""
	if rivals {
		without = "; without rivals"
	}
	fl.IntVar(&f.parallel.Connections, "connections", 1, fmt.Sprintf("connections that run each test at once, at most %d%s", bench.MaxConnections, without))
	fl.IntVar(&f.parallel.Streams, "streams", 0, "number of streams of 1 MiB Writes on other connections; each test runs alone and beside them")
	fl.BoolVar(&f.parallel.Both, "both", false, "both directions at once"+without)
	fl.BoolVar(&f.reverse, "reverse", false, "the server measures instead of the client")
	cmd.MarkFlagsMutuallyExclusive("both", "reverse")
	cmd.MarkFlagsMutuallyExclusive("both", "streams")
}

// checkParallel removes tests that cannot run on several connections, unless the user named them.
func (f *runFlags) checkParallel() error {
	if f.parallel.Connections < 1 || f.parallel.Connections > bench.MaxConnections {
		return cli.Usagef("--connections %d is out of range: 1 to %d", f.parallel.Connections, bench.MaxConnections)
	}
	if f.parallel.Streams < 0 || f.parallel.Connections+f.parallel.Streams > bench.MaxConnections {
		return cli.Usagef("--streams %d is out of range: at least 0, and with --connections at most %d", f.parallel.Streams, bench.MaxConnections)
	}
	if !f.parallel.Several() {
		return nil
	}
	for _, t := range f.tests {
		if err := f.parallel.Refuses(bench.Test(t)); err != nil {
			return cli.Usagef("--tests: %v", err)
		}
	}
	if len(f.tests) == 0 {
		for _, t := range bench.Tests() {
			if f.parallel.Refuses(t) == nil {
				f.tests = append(f.tests, string(t))
			}
		}
	}
	return nil
}

// plan returns the tests to run.
func (f *runFlags) plan() ([]bench.Spec, error) {
	if err := errors.Join(f.checkDatapath(), f.told.check(f.json)); err != nil {
		return nil, err
	}
	tests, err := parseTests(f.tests)
	if err != nil {
		return nil, err
	}
	all := len(f.sizes) == 1 && f.sizes[0] == allSizes
	if all {
		f.sizes = []string{allSizesAre}
	}
	sizes, err := cli.Sizes("sizes", f.sizes, 1, bench.MaxSize, "1 to "+bench.FormatSize(bench.MaxSize))
	if err != nil {
		return nil, err
	}
	if f.duration <= 0 {
		return nil, cli.Usagef("--duration %v is not a positive duration", f.duration)
	}
	specs, err := bench.Plan(tests, sizes, bench.Spec{
		Duration: f.duration, Event: f.event, Verify: f.verify, Depth: f.depth, ListSize: f.list, Entries: f.entries,
	})
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	if all { // for larger messages the rate is the bandwidth divided by the size
		specs = slices.DeleteFunc(specs, func(s bench.Spec) bool { return s.Test.IsRate() && s.Size > sweepRateSize })
	}
	return specs, nil
}

// allSizes corresponds to -a of perftest.
const (
	allSizes    = "all"
	allSizesAre = "2-8M"
)

func testNames() string {
	var names []string
	for _, t := range bench.Tests() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// parseTests returns the named tests, in the order in which tests run.
func parseTests(names []string) ([]bench.Test, error) {
	if len(names) == 0 {
		return bench.Tests(), nil
	}
	for _, n := range names {
		if !slices.Contains(bench.Tests(), bench.Test(n)) {
			return nil, cli.Usagef("--tests: %q is unknown: choose from %s", n, testNames())
		}
	}
	var tests []bench.Test
	for _, t := range bench.Tests() {
		if slices.Contains(names, string(t)) {
			tests = append(tests, t)
		}
	}
	return tests, nil
}

// baselines are the rivals measured beside nd.
type baselines struct {
	raw   bool
	tcp   bench.TCPRival
	tools []string // external programs, if they are installed
}

const baselinesAre = "raw, tcp, tools (iperf3, sockperf, ucx_perftest and fi_pingpong, if installed), none"

// parseBaselines parses raw, tcp, tools and none. An empty list is none.
func parseBaselines(names []string) (b baselines, err error) {
	for _, n := range names {
		switch strings.TrimSpace(n) {
		case "raw":
			b.raw = true
		case "tcp":
			b.tcp = bench.PlainTCP
		case "tools":
			b.tools = bench.InstalledTools()
		case "", "none":
		default:
			return b, cli.Usagef("--baseline: %q is unknown: choose from %s", n, baselinesAre)
		}
	}
	return b, nil
}

// errNoAFXDP means that raw AF_XDP is left out because only plain sockets are measured.
var errNoAFXDP = errors.New("none of the chosen datapaths uses AF_XDP")

// leaveOut removes rivals that this process cannot measure, or that have nothing to compare with in a sweep, and prints why.
func (b *baselines) leaveOut(stderr io.Writer, swept ...string) {
	if !b.raw {
		return
	}
	err := bench.RawSupported()
	if len(swept) > 0 && !slices.ContainsFunc(swept, overAFXDP) {
		err = errNoAFXDP
	}
	if err != nil {
		b.raw = false
		fmt.Fprintf(stderr, "without the ceiling of raw AF_XDP: %v\n", err)
	}
}

// overAFXDP reports whether a datapath may use AF_XDP.
func overAFXDP(name string) bool {
	d, err := nd.ParseDatapath(name)
	return err == nil && !d.OverSockets()
}

func checkMTUs(mtus []int) error {
	if len(mtus) == 0 {
		return cli.Usagef("--mtu: name at least one MTU")
	}
	for _, m := range mtus {
		if m < minMTU || m > maxMTU {
			return cli.Usagef("--mtu %d is out of range: %d to %d", m, minMTU, maxMTU)
		}
	}
	return nil
}

// parseAddr parses HOST:PORT. Both parts are required.
func parseAddr(ctx context.Context, text string) (netip.AddrPort, error) {
	a, ok, err := cli.ResolveAddrPort(ctx, text)
	switch {
	case err != nil:
		return a, fmt.Errorf("--addr: %w", err)
	case !ok || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast():
		return a, cli.Usagef("--addr %q is not a unicast HOST:PORT (examples: 192.0.2.7:9000, [2001:db8::7]:9000, node7:9000)", text)
	}
	return a, nil
}
