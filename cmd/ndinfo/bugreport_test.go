package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// precious is the payload and the private data of programs in a test.
var precious = bytes.Repeat([]byte("precious payload "), 20)

// newConnection makes two adapters of this process transfer payload over loopback. One of the adapters can be inspected.
func newConnection(t *testing.T) {
	t.Helper()
	cfg := nd.EndpointConfig{Rights: nd.MRAllowRemoteWrite, Datapath: nd.DatapathUDP, UDPPort: netlabtest.FreePort(t), Greeting: precious}
	at := netip.AddrPortFrom(netlabtest.Loopback()[0], 7300)
	l, err := nd.Listen(at, cfg)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() { _, _ = l.Accept(t.Context()) }() // Dial reports whether the connection was accepted
	e, err := nd.Dial(t.Context(), at, cfg)
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	n := copy(e.Memory.Bytes(), precious)
	must(t, e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, n)}, e.Peer.Address, e.Peer.Token, 0))
	if r, err := e.Result(t.Context()); err != nil || r.Status != nd.StatusSuccess {
		t.Fatalf("%+v, %v", r, err)
	}
}

// bugreport runs the command in a namespace, and returns the files of its archive without their directory.
func bugreport(t *testing.T, ns *netlab.Namespace, file string, args ...string) (files map[string]string, stdout, stderr string) {
	t.Helper()
	var out, said bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"bugreport", "-o", file}, args...))
	root.SetOut(&out)
	root.SetErr(&said)
	must(t, ns.Do(func() error { return root.ExecuteContext(t.Context()) }))
	raw, err := os.Open(file)
	must(t, err)
	defer raw.Close()
	zip, err := gzip.NewReader(raw)
	must(t, err)
	files = map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, out.String(), said.String()
		}
		must(t, err)
		text, err := io.ReadAll(in)
		must(t, err)
		top, name, _ := strings.Cut(h.Name, "/")
		if !strings.HasPrefix(top, "ndxdp-bugreport-") || path.Clean(h.Name) != h.Name {
			t.Errorf("a file called %q", h.Name)
		}
		files[name] = string(text)
	}
}

func decode[T any](t *testing.T, files map[string]string, name string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(files[name]), &v); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return v
}

// TestBugreport: one archive has the machine, its interfaces and findings, and every process with its counters and last events. The
// command prints its steps and the list of files, and only the owner may read the archive.
func TestBugreport(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	newConnection(t)
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	file := filepath.Join(t.TempDir(), "x.tar.gz")
	files, out, said := bugreport(t, pair.A, file)
	info, err := os.Stat(file)
	if must(t, err); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	for name := range files {
		if !strings.Contains(out, name) {
			t.Errorf("%s is not listed:\n%s", name, out)
		}
	}
	for _, want := range []string{"machine", "interface nd0", "kernel", fmt.Sprintf("process %d", os.Getpid())} {
		if !strings.Contains(said, "looking at: "+want) {
			t.Errorf("no progress about %q:\n%s", want, said)
		}
	}
	if m := decode[ndhealth.Machine](t, files, "machine.json"); m.Kernel == "" || len(m.Interfaces) < 2 {
		t.Errorf("%+v", m)
	}
	if r := decode[[]ndhealth.Report](t, files, "doctor.json"); len(r) != 1 || r[0].Interface != "nd0" || len(r[0].Findings) < 10 {
		t.Errorf("%+v", r)
	}
	if a := decode[[]ndhealth.Adapter](t, files, "adapters.json"); len(a) == 0 || a[0].Limits.MaxTransferLength == 0 {
		t.Errorf("%+v", a)
	}
	if b := decode[map[string]string](t, files, "build.json"); b["go"] == "" || b["platform"] == "" {
		t.Errorf("%v", b)
	}
	mine := 0
	for name := range files {
		if strings.HasPrefix(name, "processes/") && strings.HasSuffix(name, ".json") {
			r := decode[ndinspect.Reply](t, files, name)
			if r.PID == os.Getpid() && len(r.Connections) == 1 && r.Stats.Packets.Out > 0 && r.Build.Go != "" &&
				strings.Contains(files[strings.TrimSuffix(name, ".json")+".flight.txt"], "state ") {
				mine++
			}
		}
	}
	if mine != 2 {
		t.Errorf("%d of the two adapters of this process:\n%s", mine, out)
	}
	if !strings.Contains(files["kernel/proc/version"], "Linux") || !strings.Contains(files["README"], "no payload") {
		t.Errorf("%v", files["README"])
	}
}

// TestBugreportHasNoSecrets: the archive has neither the reset key of the host nor payload, in any notation.
func TestBugreportHasNoSecrets(t *testing.T) {
	netlabtest.NeedRoot(t)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	newConnection(t) // makes the key, and sends payload
	key, err := os.ReadFile("/run/ndxdp/reset.key")
	must(t, err)
	if len(key) < 32 {
		t.Fatalf("a key of %d bytes", len(key))
	}
	files, _, _ := bugreport(t, netlabtest.Pair(t, netlab.PairConfig{}).A, filepath.Join(t.TempDir(), "x.tar.gz"))
	for what, secret := range map[string][]byte{"key": key[:16], "payload": precious[:17]} {
		for _, text := range []string{
			string(secret), hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret)), strings.Trim(fmt.Sprintf("%d", secret), "[]"),
			base64.StdEncoding.EncodeToString(secret)[:20], base64.URLEncoding.EncodeToString(secret)[:20],
		} {
			for name, has := range files {
				if strings.Contains(has, text) {
					t.Errorf("the %s is in %s", what, name)
				}
			}
		}
	}
}

// TestBugreportErrors: an existing file is not changed, and a failed report leaves no file.
func TestBugreportErrors(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	must(t, os.WriteFile(there, []byte("precious"), 0o600))
	for _, file := range []string{there, filepath.Join(dir, "no", "such")} {
		root := newRoot()
		root.SetArgs([]string{"bugreport", "-o", file})
		root.SetOut(&bytes.Buffer{})
		root.SetErr(&bytes.Buffer{})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "name a new file in a directory that can be written") {
			t.Errorf("%s: %v", file, err)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}

// interrupting cancels a context as soon as it reads a given text.
type interrupting struct {
	at     string
	cancel context.CancelFunc
}

func (i interrupting) Write(said []byte) (int, error) {
	if strings.Contains(string(said), i.at) {
		i.cancel()
	}
	return len(said), nil
}

// TestBugreportInterrupted: an interruption at any step leaves no incomplete archive.
func TestBugreportInterrupted(t *testing.T) {
	for _, part := range []string{"machine", "interfaces", "kernel", "processes"} {
		ctx, cancel := context.WithCancel(t.Context())
		file := filepath.Join(t.TempDir(), part)
		_, err := writeReport(ctx, file, "x", interrupting{"looking at: " + part, cancel})
		if _, there := os.Stat(file); !errors.Is(err, context.Canceled) || !errors.Is(there, os.ErrNotExist) {
			t.Errorf("interrupted at %s: %v; the file: %v", part, err, there)
		}
	}
}
