package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/bench"
)

// runFlags are the flags that say what to measure and where to report it, the same for veth, loop and client.
type runFlags struct {
	tests, sizes []string
	duration     time.Duration
	datapath     string
	poll, event  bool
	verify       bool
	json         string
	inspect      bool
	capture      captureFlags // of the commands that have them
}

// Largest and smallest link MTU that ndperf takes: 1280 is what a handshake needs (PROTOCOL §7), 65535 the largest that
// a veth pair has.
const (
	minMTU = 1280
	maxMTU = 65535
)

func (f *runFlags) register(cmd *cobra.Command) {
	f.registerTests(cmd)
	f.registerDatapath(cmd)
	f.registerInspect(cmd)
}

// registerInspect is the flag that lets others watch.
func (f *runFlags) registerInspect(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.inspect, "inspect", false, "open the adapters to ndstat while they are measured")
}

// registerTests is all but the datapath.
func (f *runFlags) registerTests(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.tests, "tests", nil, "tests to run (default all): "+testNames())
	fl.StringSliceVar(&f.sizes, "sizes", nil, "message sizes such as 64,4K,1M (default 64 for latency and rate, 1M for bandwidth)")
	fl.DurationVar(&f.duration, "duration", bench.DefaultDuration, "measured time of each test")
	fl.BoolVar(&f.poll, "poll", false, "poll the completion queues (the default)")
	fl.BoolVar(&f.event, "event", false, "sleep until a completion arrives instead of polling")
	fl.BoolVar(&f.verify, "verify", true, "check every byte at the end of each test")
	fl.StringVar(&f.json, "json", "", "write the report as JSON to this file, - for standard output")
	cmd.MarkFlagsMutuallyExclusive("poll", "event")
}

const oneOfDatapaths = "auto, generic, native or udp"

func (f *runFlags) registerDatapath(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.datapath, "datapath", "auto", "how packets move: "+oneOfDatapaths)
}

func (f *runFlags) checkDatapath() error {
	if !slices.Contains([]string{"auto", "generic", "native", "udp"}, f.datapath) {
		return fmt.Errorf("--datapath %q is unknown: choose %s", f.datapath, oneOfDatapaths)
	}
	return nil
}

// plan turns the flags into specs.
func (f *runFlags) plan() ([]bench.Spec, error) {
	if err := f.checkDatapath(); err != nil {
		return nil, err
	}
	tests, err := parseTests(f.tests)
	if err != nil {
		return nil, err
	}
	sizes, err := parseSizes(f.sizes)
	if err != nil {
		return nil, err
	}
	if f.duration <= 0 {
		return nil, fmt.Errorf("--duration %v is not a positive duration", f.duration)
	}
	return bench.Plan(tests, sizes, bench.Spec{Duration: f.duration, Event: f.event, Verify: f.verify})
}

func testNames() string {
	var names []string
	for _, t := range bench.Tests() {
		names = append(names, string(t))
	}
	return strings.Join(names, ",")
}

// parseTests returns the named tests in the order in which they always run.
func parseTests(names []string) ([]bench.Test, error) {
	if len(names) == 0 {
		return bench.Tests(), nil
	}
	for _, n := range names {
		if !slices.Contains(bench.Tests(), bench.Test(n)) {
			return nil, fmt.Errorf("--tests: %q is unknown: choose from %s", n, testNames())
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

// parseSizes understands plain bytes and the binary suffixes K, M and G, with or without iB.
func parseSizes(texts []string) ([]int, error) {
	var sizes []int
	for _, text := range texts {
		upper := strings.ToUpper(strings.TrimSpace(text))
		digits := strings.TrimRight(upper, "KMGIB")
		shift := map[string]uint{"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20, "G": 30, "GB": 30, "GIB": 30}
		bits, ok := shift[upper[len(digits):]]
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 1 || n > bench.MaxSize>>bits {
			return nil, fmt.Errorf("--sizes: %q is not a size from 1 to %s (examples: 64, 4K, 1M)",
				text, bench.FormatSize(bench.MaxSize))
		}
		sizes = append(sizes, n<<bits)
	}
	return sizes, nil
}

// parseBaselines understands raw, tcp, both, and an empty list or "none" for neither.
func parseBaselines(names []string) (raw, tcp bool, err error) {
	for _, n := range names {
		switch strings.TrimSpace(n) {
		case "raw":
			raw = true
		case "tcp":
			tcp = true
		case "", "none":
		default:
			return false, false, fmt.Errorf("--baseline: %q is unknown: choose raw, tcp, both (raw,tcp) or none", n)
		}
	}
	return raw, tcp, nil
}

func checkMTUs(mtus []int) error {
	if len(mtus) == 0 {
		return errors.New("--mtu: name at least one MTU")
	}
	for _, m := range mtus {
		if m < minMTU || m > maxMTU {
			return fmt.Errorf("--mtu %d is out of range: %d to %d", m, minMTU, maxMTU)
		}
	}
	return nil
}

// parseAddr understands IP:PORT with both present.
func parseAddr(text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast() {
		return netip.AddrPort{}, fmt.Errorf("--addr %q is not a unicast IP:PORT (examples: 192.0.2.7:9000, [2001:db8::7]:9000)", text)
	}
	return a, nil
}
