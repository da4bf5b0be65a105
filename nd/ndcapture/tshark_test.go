package ndcapture

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/wire"
)

// script is the dissector under test.
const script = "../../docs/wireshark/ndxdp.lua"

// tshark runs tshark with the dissector and returns its output. Without tshark the test is skipped; the CI on a fresh machine
// installs it.
func tshark(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: apt-get install tshark")
	}
	if _, err := os.Stat(script); err != nil { // this also makes the cached test result depend on the script
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append(args, "-X", "lua_script:"+script)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // without the user's preferences
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(stderr.String(), "lua") || strings.Contains(stderr.String(), "Lua") {
		t.Fatalf("tshark %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// allFields returns the names of the dissector's fields that have a value.
func allFields(t *testing.T) (names []string) {
	for line := range strings.Lines(tshark(t, "-G", "fields")) {
		cols := strings.Split(line, "\t")
		if cols[0] == "F" && strings.HasPrefix(cols[2], "ndxdp.") && cols[3] != "FT_NONE" {
			names = append(names, cols[2])
		}
	}
	if len(names) < 80 {
		t.Fatalf("the dissector has %d fields: was it loaded?", len(names))
	}
	return names
}

// dissect returns the named fields of every packet of a file, numbers in decimal and bytes in hexadecimal digits.
func dissect(t *testing.T, file string, names []string, args ...string) (packets []fields) {
	t.Helper()
	args = append(args, "-r", file, "-T", "json")
	for _, name := range names {
		args = append(args, "-e", name)
	}
	var out []struct {
		Source struct{ Layers fields } `json:"_source"`
	}
	if err := json.Unmarshal([]byte(tshark(t, args...)), &out); err != nil {
		t.Fatal(err)
	}
	for _, p := range out {
		for name, values := range p.Source.Layers {
			for i, v := range values {
				p.Source.Layers[name][i] = plain(v)
			}
		}
		packets = append(packets, p.Source.Layers)
	}
	return packets
}

// plain removes the differences between versions of tshark in printing a value.
func plain(v string) string {
	switch {
	case v == "True":
		return "1"
	case v == "False":
		return "0"
	case strings.HasPrefix(v, "0x"):
		if n, err := strconv.ParseUint(v[2:], 16, 64); err == nil {
			return strconv.FormatUint(n, 10)
		}
	}
	return strings.ReplaceAll(v, ":", "")
}

var (
	peer4 = [2]wire.Endpoint{endpoint("192.0.2.1:50000"), endpoint("198.51.100.7:14791")}
	peer6 = [2]wire.Endpoint{endpoint("[2001:db8::1]:50000"), endpoint("[2001:db8:ffff::7]:14791")}
)

// writePackets writes ND packets to a file with the writer under test, each truncated to snap bytes unless snap is zero.
func writePackets(t testing.TB, ends [2]wire.Endpoint, snap int, packets ...[]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "packets.pcapng")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := newWriter(file, nd.DatapathInfo{Interface: "test0"}, snap)
	if err != nil {
		t.Fatal(err)
	}
	header := wire.NewFrameTemplate([6]byte{2, 1}, [6]byte{2, 2}, ends[0], ends[1])
	for i, b := range packets {
		frame := make([]byte, header.Len(), header.Len()+len(b))
		header.Put(frame, len(b), wire.NotECT)
		if header.Is6() {
			header.SetUDPChecksum(frame, wire.PartialSum(0, b), len(b))
		}
		p := nd.CapturedPacket{Time: time.Unix(0, int64(i)), Frame: append(frame, b...), Length: len(frame) + len(b)}
		if snap > 0 && len(b) > snap {
			p.Frame = p.Frame[:len(frame)+snap]
		}
		if err := w.write(&p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.finish(uint64(len(packets)), 0); err != nil {
		t.Fatal(err)
	}
	return path
}
