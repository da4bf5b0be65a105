package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestServerFile checks the file name of the server's packets.
func TestServerFile(t *testing.T) {
	for in, want := range map[string]string{"": "", "a": "a-server", "/x/a.pcapng": "/x/a-server.pcapng"} {
		if got := serverFile(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestArgumentsThatDoNothing: flags that would have no effect, or would fail in the middle of a run, are refused before the run begins.
func TestArgumentsThatDoNothing(t *testing.T) {
	for _, c := range []struct {
		args, want string
		status     int
	}{
		{"veth --rps zz", `--rps "zz" is no mask of processors`, cli.Misuse},
		{"loop --pcap-snap 64", "--pcap-snap 64 limits the packets of --pcap", cli.Misuse},
		{"loop --pcap /nonexistent/x.pcapng", "--pcap: open /nonexistent/x.pcapng: no such file or directory: name a file", cli.Failed},
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(c.args))
		var said strings.Builder
		if status := cli.Run(t.Context(), root, &said); status != c.status || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: status %d, %q; want %d and %q", c.args, status, said.String(), c.status, c.want)
		}
	}
}

// TestMisuseKeepsCaptures: a refused command line does not empty the captures of an earlier run.
func TestMisuseKeepsCaptures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pcapng")
	for _, name := range []string{file, serverFile(file)} {
		if err := os.WriteFile(name, []byte("packets"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(filepath.Dir(file), "link")
	if err := os.Symlink(".", link); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"loop --baseline raw", "loop --baseline x", "veth --mtu 1", "veth --beside -1", "veth --pcap-snap -1", "client --addr 192.0.2.1:9000 --tests x", "server --addr 192.0.2.1:9000 --bulk x",
		"loop --json " + file, "veth --json " + serverFile(file), "loop --json-stream " + filepath.Join(link, "x.pcapng"), "client --addr 192.0.2.1:9000 --json " + file,
	} {
		root := newRoot()
		root.SetArgs(append(strings.Fields(args), "--pcap", file))
		if status := cli.Run(t.Context(), root, io.Discard); status != cli.Misuse {
			t.Errorf("%s: status %d", args, status)
		}
		for _, name := range []string{file, serverFile(file)} {
			if text, err := os.ReadFile(name); err != nil || string(text) != "packets" {
				t.Errorf("%s: %s has %q: %v", args, filepath.Base(name), text, err)
			}
		}
	}
}

// TestVethCaptureIsDecodedWhole runs every test of ndperf over its three MTUs, captures both sides, and decodes all packets with the
// dissector. No packet is malformed, and none has an unknown opcode.
func TestVethCaptureIsDecodedWhole(t *testing.T) {
	netlabtest.NeedRoot(t)
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed: apt-get install tshark")
	}
	file := filepath.Join(t.TempDir(), "run.pcapng")
	run := ndperf(t, "veth", "--duration", "2ms", "--mtu", "1500,9000,65000", "--baseline", "none", "--pcap", file, "--pcap-snap", "200")
	run.Stderr = io.Discard
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "every packet was copied"); n != 6 {
		t.Errorf("%d of 6 captures are in the report:\n%s", n, out)
	}
	for _, file := range []string{file, serverFile(file)} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			decodedWhole(t, file)
		})
	}
}

// decodedWhole decodes a capture with the dissector.
func decodedWhole(t *testing.T, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	fields := exec.CommandContext(ctx, "tshark", "-X", "lua_script:../../docs/wireshark/ndxdp.lua", "-r", file, "-T", "fields",
		"-e", "ndxdp.number", "-e", "_ws.malformed", "-e", "_ws.lua.error", "-e", "ndxdp.unknown")
	out, err := fields.Output()
	if err != nil {
		t.Fatal(err)
	}
	packets := 0
	for line := range strings.Lines(string(out)) {
		packets++
		if number, bad, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); number == "" || strings.Trim(bad, "\t") != "" {
			t.Fatalf("%s, packet %d: %q", file, packets, line)
		}
	}
	if packets < 1000 {
		t.Errorf("%s has %d packets", file, packets)
	}
}
