package ndinspect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// talk makes packets until hush is called: nobody listens where it connects to.
func talk(t *testing.T, a *nd.Adapter) (hush func()) {
	ctx, end := context.WithCancel(t.Context())
	talked := make(chan error, 1)
	go func() {
		err := error(nd.ErrConnectionRefused)
		for errors.Is(err, nd.ErrConnectionRefused) && ctx.Err() == nil {
			_, err = nd.Dial(ctx, netip.MustParseAddrPort("127.0.0.2:7101"), nd.EndpointConfig{Adapter: a})
		}
		talked <- err
	}()
	return func() {
		end()
		if err := <-talked; !errors.Is(err, nd.ErrConnectionRefused) && !errors.Is(err, context.Canceled) {
			t.Errorf("talking ended with %v", err)
		}
	}
}

func dial(t *testing.T, s *Server) *Client {
	t.Helper()
	c, err := Dial(s.Path())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// awaitTap asks until the adapter has a tap, or has none any more.
func awaitTap(t *testing.T, c *Client, want bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		r, err := c.Ask(Request{})
		must(t, err)
		if r.Capturing == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("capturing is %v", r.Capturing)
		}
	}
}

// TestCapture ends captures by their count and by the client, and has the tap off after each.
func TestCapture(t *testing.T) {
	a := newPair(t)
	s, err := Serve(a, filepath.Join(t.TempDir(), "x.sock"))
	must(t, err)
	defer s.Close()
	defer talk(t, a)()
	var file bytes.Buffer
	sum, err := dial(t, s).Capture(t.Context(), CaptureRequest{MaxPackets: 5, SnapLength: 40}, &file)
	must(t, err)
	if sum.Written != 5 || sum.Bytes != int64(file.Len()) || !bytes.HasPrefix(file.Bytes(), []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		t.Errorf("%+v, %d bytes: %x", sum, file.Len(), file.Bytes()[:4])
	}
	if a.Capturing() {
		t.Error("the tap is on after the end")
	}
	asking := dial(t, s)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	type result struct {
		sum Summary
		err error
	}
	done := make(chan result, 1)
	file.Reset()
	go func(c *Client) {
		sum, err := c.Capture(ctx, CaptureRequest{}, &file)
		done <- result{sum, err}
	}(dial(t, s))
	awaitTap(t, asking, true)
	if _, err := dial(t, s).Capture(t.Context(), CaptureRequest{}, io.Discard); err == nil || !strings.Contains(err.Error(), "a capture is running") {
		t.Errorf("a second capture: %v", err)
	}
	end()
	if r := <-done; r.err != nil || r.sum.Bytes != int64(file.Len()) {
		t.Errorf("%+v, %d bytes", r, file.Len())
	}
	awaitTap(t, asking, false)
}

// TestCaptureOfAClientThatStalls: whoever takes nothing for too long loses the capture, and the adapter its tap, while the adapter works.
func TestCaptureOfAClientThatStalls(t *testing.T) {
	a := newPair(t)
	s, err := serve(a, filepath.Join(t.TempDir(), "x.sock"), time.Millisecond)
	must(t, err)
	defer s.Close()
	defer talk(t, a)()
	stalled := dial(t, s)
	r, err := stalled.exchange(Request{Capture: &CaptureRequest{}})
	must(t, err)
	if !r.Streams || !a.Capturing() {
		t.Errorf("%+v, tap %v", r, a.Capturing())
	}
	must(t, stalled.conn.SetDeadline(time.Time{})) // that of the exchange
	awaitTap(t, dial(t, s), false)
	if _, err := io.Copy(io.Discard, stalled.conn); err != nil {
		t.Errorf("the stalled client's connection was not closed: %v", err)
	}
}

// TestCaptureEndsWithEitherSide: a client that goes away takes the tap with it, and a server that closes is told.
func TestCaptureEndsWithEitherSide(t *testing.T) {
	a := newPair(t)
	s, err := Serve(a, filepath.Join(t.TempDir(), "x.sock"))
	must(t, err)
	defer s.Close()
	c := dial(t, s)
	r, err := c.exchange(Request{Capture: &CaptureRequest{}})
	must(t, err)
	if !r.Streams || !a.Capturing() {
		t.Errorf("%+v, tap %v", r, a.Capturing())
	}
	must(t, c.Close())
	awaitTap(t, dial(t, s), false)
	done := make(chan error, 1)
	go func(c *Client) {
		_, err := c.Capture(context.Background(), CaptureRequest{}, io.Discard)
		done <- err
	}(dial(t, s))
	awaitTap(t, dial(t, s), true)
	must(t, s.Close())
	if a.Capturing() {
		t.Error("the tap outlives the server")
	}
	if err := <-done; err == nil {
		t.Error("a capture that was cut off succeeded")
	}
}
