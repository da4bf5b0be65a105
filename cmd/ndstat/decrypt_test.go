package main

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndcapture"
)

// secretly writes the capture and the key log of an encrypted connection that carries text, and returns the names of both files.
func secretly(t *testing.T, text string) (capture, keys string) {
	dir, port := t.TempDir(), netlabtest.FreePort(t)
	capture, keys = filepath.Join(dir, "x.pcapng"), filepath.Join(dir, "keys.log")
	log, err := os.Create(keys)
	must(t, err)
	defer log.Close()
	dialer, listener := testhelp.NewAuthority(t).Mutual()
	dialer.KeyLogWriter, dialer.ServerName = log, "node7" // the certificate has none of our addresses
	var adapters [2]*nd.Adapter
	for i, at := range loopback {
		adapters[i], err = nd.OpenAdapter(nd.AdapterConfig{Address: at, Datapath: nd.DatapathUDP, UDPPort: port, Inspect: nd.InspectOff})
		must(t, err)
		defer adapters[i].Close()
	}
	file, err := os.Create(capture)
	must(t, err)
	defer file.Close()
	r, err := ndcapture.Start(adapters[0], file, ndcapture.Config{})
	must(t, err)
	at := netip.AddrPortFrom(loopback[1], 7202)
	l, err := nd.Listen(at, nd.EndpointConfig{Adapter: adapters[1], Rights: nd.MRAllowRemoteWrite, TLS: listener})
	must(t, err)
	defer l.Close()
	go func() { _, _ = l.Accept(t.Context()) }() // Dial reports whether the connection was accepted
	e, err := nd.Dial(t.Context(), at, nd.EndpointConfig{Adapter: adapters[0], TLS: dialer})
	must(t, err)
	must(t, e.Write(t.Context(), 0, []byte(text)))
	_, err = r.Stop()
	must(t, err)
	return capture, keys
}

// TestDecryptOfACapture: what a connection carried is in the output and was not in the capture. No command destroys the capture.
func TestDecryptOfACapture(t *testing.T) {
	const text = "the text of an encrypted connection"
	capture, keys := secretly(t, text)
	plain := filepath.Join(t.TempDir(), "plain.pcapng")
	must(t, os.WriteFile(plain, bytes.Repeat([]byte("earlier"), 1<<18), 0o600))
	_, said, err := ndstat("decrypt", "--keys", keys, "-w", plain, capture)
	must(t, err)
	before, err := os.ReadFile(capture)
	must(t, err)
	after, err := os.ReadFile(plain)
	must(t, err)
	if bytes.Contains(before, []byte(text)) || !bytes.Contains(after, []byte(text)) || bytes.Contains(after, []byte("earlier")) {
		t.Error("the text was readable before, is not readable after, or the file has other bytes")
	}
	if !strings.Contains(said, "packets decrypted") || strings.Contains(said, "stay") {
		t.Errorf("it said %q", said)
	}
	if out, _, err := ndstat("decrypt", "--keys", keys, "-w", "-", capture); err != nil || out != string(after) {
		t.Errorf("standard output has %d bytes, %v", len(out), err)
	}
	_, other := secretly(t, text)
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct{ keys, file, capture, says string }{
		{keys, capture, capture, "name another file"},
		{empty, plain, capture, "KeyLogWriter"},
		{keys, plain, keys, "editcap"},
		{keys, plain, "/no/such/file", "no such file"},
		{"/no/such/file", plain, capture, "--keys: open /no/such/file"},
		{keys, "/no/such/file", capture, "name a file that can be written"},
		{other, os.DevNull, capture, "give the key log of a program of the capture"},
	} {
		if _, said, err := ndstat("decrypt", "--keys", c.keys, "-w", c.file, c.capture); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, %q", c, err, said)
		}
	}
	for name, want := range map[string][]byte{capture: before, plain: after} {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s was changed (%v)", name, err)
		}
	}
}
