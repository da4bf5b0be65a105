package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// The fault loses one of every thousand pieces of received payload before they are put into memory. Acknowledgements, completions and
// lengths stay right. The hundredth piece of every thousand is lost, because a busy machine may not reach the thousandth. The control messages of ndperf, in JSON, are not affected, so that it can report its findings.
const (
	faultyFile = "../../provider/internal/packet/reader.go"
	faultyCode = `package packet

import "sync/atomic"

var faultyPieces atomic.Uint64

func (r *Reader) loses(dst []byte) bool {
	if faultyPieces.Add(1)%1000 != 100 || len(r.rest) == 0 || r.rest[0] == '{' {
		return false
	}
	r.Skip(len(dst))
	return true
}
`
)

// faultyPlaces are the functions that put payload into memory. PlaceLast may call Place, which counts the piece again.
var faultyPlaces = map[string]string{
	"func (r *Reader) Place(dst []byte) {\n":     "\tif r.loses(dst) {\n\t\treturn\n\t}\n",
	"func (r *Reader) PlaceLast(dst []byte) {\n": "\tif r.loses(dst) {\n\t\treturn\n\t}\n",
}

// buildFaulty builds ndperf with the fault, without changing the source tree.
func buildFaulty(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(faultyFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for place, fault := range faultyPlaces {
		if strings.Count(text, place) != 1 {
			t.Fatalf("%s has no %q: where is payload placed now?", faultyFile, place)
		}
		text = strings.Replace(text, place, place+fault, 1)
	}
	dir := t.TempDir()
	original, err := filepath.Abs(faultyFile)
	if err != nil {
		t.Fatal(err)
	}
	changed, added := filepath.Join(dir, "reader.go"), filepath.Join(dir, "faulty.go")
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "ndperf")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed, filepath.Join(filepath.Dir(original), "faulty.go"): added}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{changed: text, added: faultyCode, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// TestBuildThatLosesBytesFails runs every test of ndperf, polling and sleeping, with a build that loses one piece of payload in a
// thousand. No test may report a figure.
func TestBuildThatLosesBytesFails(t *testing.T) {
	if testing.Short() {
		t.Skip("builds ndperf and measures for ten seconds; left out with -short")
	}
	binary := buildFaulty(t)
	for _, mode := range []string{"--poll", "--event"} {
		for _, test := range bench.Tests() {
			t.Run(fmt.Sprint(test, mode), func(t *testing.T) {
				t.Parallel() // a lost Write of a ping-pong costs a wait of five seconds
				said := runFaulty(t, binary, string(test), mode)
				if !slices.ContainsFunc([]string{"did not transfer its bytes", "is wrong at byte", "is not what was sent", "nothing moved for"}, func(why string) bool {
					return strings.Contains(said, why)
				}) {
					t.Errorf("the error does not name what was lost:\n%s", said)
				}
			})
		}
	}
}

// runFaulty measures until the run fails, and returns the output of ndperf. A busy machine may not reach the lost piece. Then the test is
// repeated with a longer duration.
func runFaulty(t *testing.T, binary, test, mode string) string {
	t.Helper()
	for seconds := 1; ; seconds *= 4 {
		cmd := exec.CommandContext(t.Context(), binary, "loop", "--tests", test, mode, "--duration", fmt.Sprintf("%ds", seconds),
			"--baseline", "none", "--json", "-", "--udp-port", fmt.Sprint(netlabtest.FreePort(t)))
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if cmd.Run() != nil {
			return said.String()
		}
		report, err := bench.ReadReport(&out)
		if err != nil {
			t.Fatal(err)
		}
		if ops := report.Results[0].Ops; ops > 1000 || seconds > 60 {
			t.Fatalf("the run succeeded, with %d operations in %d s", ops, seconds)
		}
	}
}
