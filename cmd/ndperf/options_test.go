package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// TestArgumentErrors runs whole command lines: each is refused before anything starts, with one line that names the flag and the possible
// values.
func TestArgumentErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"veth --tests teleport", `--tests: "teleport" is unknown: choose from write_lat,`},
		{"veth --sizes 12Q", `--sizes: "12Q" is not a size`},
		{"veth --connections 0", "--connections 0 is out of range: 1 to 64"},
		{"veth --connections 2 --tests write_lat", "write_lat runs one operation at a time"},
		{"client --addr 192.0.2.1:9000 --connections 65", "--connections 65 is out of range: 1 to 64"},
		{"client --addr 192.0.2.1:9000 --streams 64", "--streams 64 is out of range"},
		{"loop --both --reverse", "[both reverse]"},
		{"veth --entries 17", "17 entries are out of range: 1 to 16"},
		{"veth --depth -1", "depth -1 is out of range: 1 to 3 with messages of 1 MiB"},
		{"veth --sizes 64,all", `--sizes: "all" is not a size`},
		{"veth --sizes 0", `--sizes: "0" is not a size`},
		{"veth --sizes 2G", `--sizes: "2G" is not a size`},
		{"veth --sizes M", `--sizes: "M" is not a size`},
		{"veth --mtu 100", "--mtu 100 is out of range: 1280 to 65535"},
		{"veth --mtu x", "--mtu"},
		{"veth --mtu ", "--mtu"},
		{"veth --duration -1s", "--duration -1s is not a positive duration"},
		{"veth --duration 1us", "duration 1µs is out of range"},
		{"veth --datapath hardware", `--datapath "hardware" is unknown: choose auto, generic, native, udp, ring or tcx`},
		{"veth --datapath udp --bulk only", "--bulk only needs AF_XDP, which --datapath udp does not have: leave --bulk out"},
		{"client --addr 192.0.2.1:9000 --datapath ring --bulk only", "--bulk only needs AF_XDP, which --datapath ring does not have"},
		{"veth --baseline infiniband", `--baseline: "infiniband" is unknown`},
		{"loop --baseline raw", `--baseline: raw AF_XDP does not work on loopback`},
		{"loop --datapath native", "unknown flag: --datapath"},
		{"loop --mtu 1500", "unknown flag: --mtu"},
		{"veth --poll --event", "[event poll]"},
		{"veth --wrong", "unknown flag: --wrong"},
		{"veth extra", `unknown command "extra"`},
		{"client --addr 10.0.0.1", `--addr "10.0.0.1" is not a unicast HOST:PORT`},
		{"client --addr 0.0.0.0:9000", `--addr "0.0.0.0:9000" is not a unicast HOST:PORT`},
		{"server --addr 224.0.0.1:9000", `is not a unicast HOST:PORT`},
		{"client", "addr"},
		{"validate", "requires at least 1 arg"},
		{"validate /nonexistent/report.json", "/nonexistent/report.json: no such file"},
		{"loop --json /nonexistent/report.json", "/nonexistent"},
		{"conn -n 0", "-n 0 is out of range: 1 to 16384"},
		{"conn -n 16385", "-n 16385 is out of range"},
		{"conn --loop --idle 0s", "--idle 0s is not a positive duration"},
		{"conn --loop --datapath native", "[datapath loop]"},
		{"apps --tests teleport", `--tests: "teleport" is unknown: choose from echo,`},
		{"apps --rounds 0", "--rounds 0 is out of range: 1 to 100"},
		{"apps --duration 1us", "--duration 1µs is out of range"},
		{"apps --beside 65", "--beside 65 is out of range: 0 to 64"},
		{"apps --mtu 100", "--mtu 100 is out of range"},
		{"apps --loop --datapath native", "[datapath loop]"},
		{"apps --loop --mtu 1500", "[loop mtu]"},
		{"veth --beside -1", "--beside -1 is out of range"},
		{"fly", `unknown command "fly"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // a command that accepts its arguments must not start to measure
			root := newRoot()
			root.SetArgs(strings.Split(c.args, " "))
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetErr(&out)
			err := root.ExecuteContext(ctx)
			if err == nil {
				t.Fatal("no error")
			}
			if got := cli.OneLine(err); !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("error is %q, want one line with %q", got, c.want)
			}
		})
	}
}

func TestParseTestsKeepsTheOrder(t *testing.T) {
	got, err := parseTests([]string{"send_bw", "write_lat"})
	if err != nil || !slices.Equal(got, []bench.Test{bench.WriteLat, bench.SendBW}) {
		t.Errorf("tests are %v (%v)", got, err)
	}
}

func TestParseBaselines(t *testing.T) {
	for _, c := range []struct {
		in  []string
		raw bool
		tcp bench.TCPRival
	}{
		{nil, false, bench.NoTCP},
		{[]string{""}, false, bench.NoTCP},
		{[]string{"none"}, false, bench.NoTCP},
		{[]string{"raw"}, true, bench.NoTCP},
		{[]string{"tcp"}, false, bench.PlainTCP},
		{[]string{"raw", "tcp"}, true, bench.PlainTCP},
	} {
		b, err := parseBaselines(c.in)
		if b.raw != c.raw || b.tcp != c.tcp || b.tools != nil || err != nil {
			t.Errorf("%q: %+v, error %v", c.in, b, err)
		}
	}
}

// TestAllSizes: the sizes are 2 bytes to 8 MiB, each twice the previous one. The rate is left out for sizes at which it is not measured.
func TestAllSizes(t *testing.T) {
	f := &runFlags{tests: []string{"write_bw", "write_rate"}, sizes: []string{"all"}, duration: bench.DefaultDuration, datapath: "auto"}
	specs, err := f.plan()
	if err != nil {
		t.Fatal(err)
	}
	var streams, rates []int
	for _, s := range specs {
		if s.Test == bench.WriteBW {
			streams = append(streams, s.Size)
		} else {
			rates = append(rates, s.Size)
		}
	}
	if len(streams) != 23 || streams[0] != 2 || streams[22] != 8<<20 || len(rates) != 6 || rates[5] != 64 {
		t.Errorf("streams of %v, rates of %v", streams, rates)
	}
}

// TestPlansThatCannotBeAreMisuse: a plan that no test can run is misuse, and has the exit status of misuse.
func TestPlansThatCannotBeAreMisuse(t *testing.T) {
	for _, args := range []string{"--depth -1", "--list -1", "--list 2 --depth 1", "--entries 17", "--duration 1us"} {
		root := newRoot()
		root.SetArgs(append([]string{"client", "--addr", "192.0.2.1:9000"}, strings.Split(args, " ")...))
		var out bytes.Buffer
		if status := cli.Run(t.Context(), root, &out); status != cli.Misuse || !strings.Contains(out.String(), "out of range") {
			t.Errorf("%s: status %d, %s", args, status, out.String())
		}
	}
}
