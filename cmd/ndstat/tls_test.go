package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// TestEncryptionIsShown: the table has the cipher of each connection. Lines below it have handshakes, peers and keys, for a bounded number of
// connections, and no text of a process steers the terminal.
func TestEncryptionIsShown(t *testing.T) {
	remote := netip.MustParseAddrPort("192.0.2.1:7200")
	info := nd.TLSInfo{
		Version: "TLS 1.3", Suite: "TLS_AES_128_GCM_SHA256", Protocol: "ndxdp", Peer: "spiffe://example.org/web", GenerationOut: 3, GenerationIn: 2, Forged: 7,
	}
	evil := info
	evil.Peer, evil.Suite, evil.Version = hostile, hostile, hostile
	nobody := info
	nobody.Peer, nobody.Suite = "", "TLS_CHACHA20_POLY1305_SHA256"
	r := &ndinspect.Reply{PID: 7, Command: "app", Connections: []nd.ConnectionInfo{{Remote: remote}}}
	r.Stats.TLS = nd.TLSStats{Handshakes: 5, HandshakesFailed: 2, KeyUpdates: 4}
	for i, x := range []*nd.TLSInfo{&info, &evil, &nobody} {
		r.Connections = append(r.Connections, nd.ConnectionInfo{ID: uint64(i), Remote: remote, TLS: x})
	}
	for range 2 * maxPeers {
		r.Connections = append(r.Connections, nd.ConnectionInfo{Remote: remote, TLS: &info})
	}
	w := &watch{now: map[string]*ndinspect.Reply{"7.sock": r}}
	var out bytes.Buffer
	w.render(&out, 0)
	for _, want := range []string{
		"7 app made 5 TLS handshakes, 2 failed, and changed keys 4 times",
		"7 app: 192.0.2.1:7200 is spiffe://example.org/web, by TLS 1.3 and TLS_AES_128_GCM_SHA256; keys 3 out, 2 in; 7 packets with a wrong tag",
		"is a peer without a certificate",
		"7 app has more encrypted connections: --json shows all",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if n := strings.Count(out.String(), "more encrypted connections"); n != 1 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d times more; %q", n, &out)
	}
	for i, c := range header {
		if c != "TLS" {
			continue
		}
		for cell, x := range map[string]*nd.TLSInfo{"-": nil, "A128": &info, "C20": &nobody} {
			if got := fmt.Sprint(cells(row{process: r, conn: nd.ConnectionInfo{TLS: x}})[i]); got != cell {
				t.Errorf("column TLS has %q, want %q", got, cell)
			}
		}
	}
}
