package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// TestCaptureOfAProcess captures some packets of a process, named by its number, while the process connects in vain.
func TestCaptureOfAProcess(t *testing.T) {
	e := newConnection(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := error(nd.ErrConnectionRefused)
		for errors.Is(err, nd.ErrConnectionRefused) {
			_, err = nd.Dial(ctx, netip.AddrPortFrom(loopback[1], 7201), nd.EndpointConfig{Adapter: e.Adapter})
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
	out, said, err := ndstat("capture", "-w", "-", "--duration", "50ms", "--snap", "60", strconv.Itoa(os.Getpid()))
	if err != nil || !strings.Contains(said, "packets captured") || !strings.HasPrefix(out, "\x0a\x0d\x0d\x0a") {
		t.Errorf("%v, %q, %d bytes", err, said, len(out))
	}
}

// TestCaptureOfNobodyLeavesTheFile: if the socket is mistyped, or its process has ended, an earlier capture file is kept.
func TestCaptureOfNobodyLeavesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pcapng")
	must(t, os.WriteFile(file, []byte("earlier"), 0o600))
	if _, _, err := ndstat("capture", "-w", file, filepath.Join(t.TempDir(), "nobody.sock")); !errors.Is(err, ndinspect.ErrGone) {
		t.Errorf("it ended with %v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "earlier" {
		t.Errorf("the file has %q (%v)", got, err)
	}
	other, err := newConnection(t).Adapter.StartCapture(nd.CaptureConfig{})
	must(t, err)
	defer other.Stop()
	if _, _, err := ndstat("capture", "-w", file, strconv.Itoa(os.Getpid())); err == nil || !strings.Contains(err.Error(), "end it first") {
		t.Errorf("beside another capture it ended with %v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "earlier" {
		t.Errorf("after a refusal the file has %q (%v)", got, err)
	}
}

// stuck is an output that accepts nothing until it is released, like a pipe to a stopped program.
type stuck struct {
	first   sync.Once
	reached chan struct{} // closed after the first write
	goOn    chan struct{}
	size    int
}

func (w *stuck) Write(p []byte) (int, error) {
	w.first.Do(func() { close(w.reached) })
	<-w.goOn
	w.size += len(p)
	return len(p), nil
}

// TestCaptureThatStopsReading transfers more than the buffer of a capture holds while its output is stuck. The connection does not wait,
// and ndstat reports how many packets are missing.
func TestCaptureThatStopsReading(t *testing.T) {
	e := newConnection(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	capturing, end := context.WithCancel(ctx)
	defer end()
	out := &stuck{reached: make(chan struct{}), goOn: make(chan struct{})}
	var said bytes.Buffer
	done := make(chan error, 1)
	go func() {
		cmd := newRoot()
		cmd.SetOut(out)
		cmd.SetErr(&said)
		cmd.SetArgs([]string{"capture", "-w", "-", strconv.Itoa(os.Getpid())})
		done <- cmd.ExecuteContext(capturing)
	}()
	move := func(times int) {
		for range times {
			must(t, e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, len(e.Memory.Bytes()))}, e.Peer.Address, e.Peer.Token, 0))
			if r, err := e.Result(ctx); err != nil || r.Status != nd.StatusSuccess {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	}
	for waiting := true; waiting; {
		select {
		case <-out.reached:
			waiting = false
		case err := <-done:
			t.Fatalf("ended early: %v, %s", err, &said)
		default:
			move(1)
		}
	}
	const buffer, others = 16 << 20, 4 << 20 // the capture's buffer (nd.CaptureConfig), and all buffers on the way to the output
	move((buffer + others) / len(e.Memory.Bytes()))
	select {
	case err := <-done:
		t.Fatalf("ended early: %v, %s", err, &said)
	default:
	}
	close(out.goOn)
	end()
	must(t, <-done)
	var written, lost, size int
	if _, err := fmt.Sscanf(said.String(), "%d packets captured, %d lost, %d bytes\n", &written, &lost, &size); err != nil {
		t.Fatalf("%v: %q", err, said.String())
	}
	if written == 0 || lost == 0 || size != out.size {
		t.Errorf("%q, and %d bytes were written", said.String(), out.size)
	}
	if e.Adapter.Capturing() {
		t.Error("the tap is on after the end")
	}
}

// TestSocketOfTheOnlyProcess: the only socket needs no name, and one of several does.
func TestSocketOfTheOnlyProcess(t *testing.T) {
	for _, c := range []struct {
		args, sockets []string
		want          string // empty for an error
	}{
		{nil, []string{"/run/ndxdp/7.sock"}, "/run/ndxdp/7.sock"},
		{nil, []string{"/run/ndxdp/7.sock", "/run/ndxdp/8.sock"}, ""},
		{[]string{"8"}, []string{"/run/ndxdp/7.sock", "/run/ndxdp/8-1.sock"}, "/run/ndxdp/8-1.sock"},
		{[]string{"8"}, []string{"/run/ndxdp/8.sock", "/run/ndxdp/8-1.sock"}, ""},
		{nil, nil, ""},
	} {
		if got, err := findSocket(c.args, c.sockets); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v of %v: %q, %v", c.args, c.sockets, got, err)
		}
	}
}

// TestCaptureErrors: each error says what to do.
func TestCaptureErrors(t *testing.T) {
	newConnection(t)
	for _, x := range []struct{ args, want string }{
		{"capture", `required flag(s) "write" not set`},
		{"capture -w x --snap -1", "must not be negative"},
		{"capture -w x 1", "process 1 has no ND adapter open, or hides it: ndstat lists the processes that show one"},
		{"capture -w /no/such/file " + strconv.Itoa(os.Getpid()), "name a file that can be written"},
		{"capture -w x /no/such/socket", "the process that made the socket ended"},
	} {
		t.Chdir(t.TempDir())
		if _, _, err := ndstat(strings.Fields(x.args)...); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("ndstat %s: %v", x.args, err)
		}
	}
}
