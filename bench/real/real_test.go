package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// The processes of a measurement run the same binary, which is this test here.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == agentCommand {
		if err := runAgent(os.Args[2]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Two cases run over both transports, and their report is complete.
func TestRun(t *testing.T) {
	netlabtest.NeedRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "real.json")
	var stdout, stderr bytes.Buffer
	args := []string{
		"--cases", "^(http-64B-1|redis-get-64B-1)$", "--mtu", "1500", "--duration", "50ms", "--rounds", "2",
		"--json", file, "--profile", filepath.Join(dir, "profiles"),
	}
	if err := run(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	r, err := bench.ReadReport(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if len(r.Real) != 2 || len(r.Real[0].Rounds) != 2 {
		t.Errorf("the report has %d cases, the first one with %d rounds", len(r.Real), len(r.Real[0].Rounds))
	}
	for _, want := range []string{"http-64B-1", "redis-get-64B-1", "geometric mean of 2 cases", "worst case: ", r.Host.CPU} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, &stdout)
		}
	}
	if profiles, _ := filepath.Glob(filepath.Join(dir, "profiles", "*.pprof")); len(profiles) != 16 {
		t.Errorf("profiles: %d, want one of each process: %v", len(profiles), profiles)
	}
}

// The file that a server serves has no name, so a killed process leaves nothing behind. Two readers each read it from its beginning.
func TestServedFileHasNoName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	want := content(100, 0)
	f, err := nameless(want)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("files that a killed process would leave: %v, %v", left, err)
	}
	for range 2 {
		reader, err := served{f}.Open(fileName)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(reader); !bytes.Equal(got, want) || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_ = reader.Close()
	}
}

// A process that fails reports the reason and the request. A killed process is detected.
func TestSideThatFails(t *testing.T) {
	n := netlabtest.Namespace(t)
	s, err := startSide(t.Context(), n, task{Side: serverSide, Case: "no such case"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.await("start", stepTimeout); err == nil || !strings.Contains(err.Error(), `server, start: no case is called "no such case"`) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if s, err = startSide(ctx, n, task{Side: clientSide, Case: "http-64B-1", Over: bench.OverTCP}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.await("start", stepTimeout); err == nil {
		t.Error("a process that was killed is ready")
	}
}

// The table fits into 100 columns, with the largest figures too.
func TestTableWidth(t *testing.T) {
	r := bench.NewReport()
	side := bench.RealSide{Ops: 9999999, Seconds: 1, P50US: 9999999, P99US: 9999999, ClientCPU: 1e15, Opened: 99999, ClientBytes: 99999, ServerBytes: 99999}
	for _, p := range cases() {
		s := side
		if p.idle > 0 {
			s.Ops = 0
		}
		r.AddReal(bench.RealResult{Case: p.name, MTU: 9000, Idle: p.idle, Datapath: "generic"}, bench.RealRound{TCP: s, ND: s})
	}
	var out bytes.Buffer
	render(&out, r)
	_, table, _ := strings.Cut(out.String(), "\n") // the first line names the machine
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Names select cases and are parts of file names of profiles.
func TestCaseNames(t *testing.T) {
	seen := map[string]bool{}
	plain := regexp.MustCompile(`^[a-z0-9]+(-[a-zA-Z0-9]+)+$`)
	for _, p := range cases() {
		if seen[p.name] || !plain.MatchString(p.name) {
			t.Errorf("the name %q is taken, or cannot be part of a file's name", p.name)
		}
		seen[p.name] = true
	}
	if _, err := named("http-64B-1"); err != nil {
		t.Error(err)
	}
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"--cases", "("}, {"--cases", "nothing"}, {"--mtu", "x"}, {"--mtu", "100"}, {"--duration", "0"}, {"--rounds", "0"}, {"more"}, {"--unknown"},
	} {
		if _, err := parse(args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	f, err := parse([]string{"--cases", "redis", "--mtu", "1500"}, io.Discard)
	if err != nil || len(f.programs) == 0 || len(f.programs) == len(cases()) || len(f.mtus) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

// Bytes that are missing, surplus, changed, of another content or from another offset are detected, however the content is divided.
func TestVerifier(t *testing.T) {
	const size, seed = 10*stampEvery + 100, 7
	good := content(size, seed)
	for _, part := range []int{1, 1000, stampEvery, size} {
		v := &verifier{size: size, seed: seed}
		for at := 0; at < size; at += part {
			if _, err := v.Write(good[at:min(at+part, size)]); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.whole(); err != nil {
			t.Error(err)
		}
	}
	moved := append(append([]byte(nil), good[stampEvery:]...), good[:stampEvery]...)
	for name, bad := range map[string][]byte{
		"short": good[:size-1], "long": append(good[:size:size], 0), "other content": content(size, seed+1), "moved": moved, "none": nil,
	} {
		if err := stamped(bad, size, seed); !errors.Is(err, errWrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The error of quantiles is at most the width of a bucket.
func TestLatencies(t *testing.T) {
	const n = 100000
	all, half := &latencies{}, &latencies{}
	for i := 1; i <= n; i++ {
		if i%2 == 0 {
			half.record(time.Duration(i) * time.Microsecond)
		} else {
			all.record(time.Duration(i) * time.Microsecond)
		}
	}
	all.add(half)
	for q, want := range map[float64]float64{0.5: n / 2, 0.99: 0.99 * n, 0: 1} {
		if got := all.quantile(q); math.Abs(got-want) > want/classes+1e-3 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	for d := time.Duration(1); d < time.Hour; d = d*5/4 + 1 {
		if got := middleOf(classOf(d)); math.Abs(float64(got-d)) > float64(d)/classes {
			t.Errorf("%v is counted as %v", d, got)
		}
	}
}
