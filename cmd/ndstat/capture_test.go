package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/nd"
)

// TestCaptureOfAProcess captures some packets of a process by its number, which connects in vain meanwhile.
func TestCaptureOfAProcess(t *testing.T) {
	e := newConnection(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := error(nd.ErrConnectionRefused)
		for errors.Is(err, nd.ErrConnectionRefused) {
			_, err = nd.Dial(ctx, netip.MustParseAddrPort("127.0.0.2:7201"), nd.EndpointConfig{Adapter: e.Adapter})
		}
	}()
	defer func() {
		cancel()
		<-done
	}()
	file := filepath.Join(t.TempDir(), "x.pcapng")
	_, said, err := ndstat("capture", "-w", file, "--count", "3", strconv.Itoa(os.Getpid()))
	must(t, err)
	got, err := os.ReadFile(file)
	must(t, err)
	if !strings.HasPrefix(said, "3 packets captured, 0 lost, ") || !bytes.HasPrefix(got, []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		t.Errorf("%q, %d bytes", said, len(got))
	}
	out, said, err := ndstat("capture", "-w", "-", "--duration", "50ms", "--snap", "60")
	if err != nil || !strings.Contains(said, "packets captured") || !strings.HasPrefix(out, "\x0a\x0d\x0d\x0a") {
		t.Errorf("%v, %q, %d bytes", err, said, len(out))
	}
}

// TestCaptureErrors: each says what to do.
func TestCaptureErrors(t *testing.T) {
	newConnection(t)
	for _, x := range []struct{ args, want string }{
		{"capture", `required flag(s) "write" not set`},
		{"capture -w x --snap -1", "must not be negative"},
		{"capture -w x 1", "process 1 is not open to ndstat: ndstat shows who is"},
		{"capture -w /no/such/file", "name a file that can be written"},
		{"capture -w x /no/such/socket", "the process that made it is gone"},
	} {
		t.Chdir(t.TempDir())
		if _, _, err := ndstat(strings.Fields(x.args)...); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("ndstat %s: %v", x.args, err)
		}
	}
}
