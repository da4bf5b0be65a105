package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestClientFlags: a client makes a server run tests on several connections, both ways, beside streams and in the reverse direction, and
// captures its packets.
func TestClientFlags(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := serversIn(t, pair.B, pair.AddrB.Addr(), 1)[0]
	pcap := filepath.Join(t.TempDir(), "client.pcapng")
	for _, c := range []struct {
		flags, want string // flags, and text that the table must have
		results     int
	}{
		{"--connections 2 --both --tests write_bw,send_bw", "x2 back", 4},
		{"--tests write_lat --streams 1 --pcap " + pcap, "Gb/s", 2},
		{"--tests write_lat,read_bw --reverse", "read_bw", 2},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		var out, said bytes.Buffer
		cmd := ndperf(t, append([]string{"client", "--addr", at, "--duration", "10ms", "--json", file}, strings.Fields(c.flags)...)...)
		cmd.Stdout, cmd.Stderr = &out, &said
		err := pair.A.StartProcess(cmd)
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.flags, err, &said)
		}
		r, err := readReport(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Results) != c.results || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %d results, want %d, and %q in\n%s", c.flags, len(r.Results), c.results, c.want, &out)
		}
		for _, x := range r.Results {
			if !x.Verified {
				t.Errorf("%s: %+v", c.flags, x)
			}
		}
	}
	if f, err := os.Stat(pcap); err != nil || f.Size() < 1000 {
		t.Errorf("the capture: %v, %v", f, err)
	}
}
