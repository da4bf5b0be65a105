package ndinspect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/inspect"
	"github.com/ndxdp/ndxdp/nd"
)

// talk makes the adapter send packets until hush is called: it connects to an address without a listener.
func talk(t *testing.T, a *nd.Adapter) (hush func()) {
	ctx, end := context.WithCancel(t.Context())
	talked := make(chan error, 1)
	go func() {
		err := error(nd.ErrConnectionRefused)
		for errors.Is(err, nd.ErrConnectionRefused) && ctx.Err() == nil {
			_, err = nd.Dial(ctx, netip.AddrPortFrom(loopback[1], listenPort+1), nd.EndpointConfig{Adapter: a})
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

func dial(t *testing.T, a *nd.Adapter) *Client {
	t.Helper()
	c, err := Dial(pathOf(t, a))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// awaitTap waits until the adapter has a tap, or has none.
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

// TestCapture ends captures by their packet limit and by the client. The tap is off after each.
func TestCapture(t *testing.T) {
	a := newPair(t)
	defer talk(t, a)()
	var file bytes.Buffer
	sum, err := dial(t, a).Capture(t.Context(), CaptureRequest{MaxPackets: 5, SnapLength: 40}, &file)
	must(t, err)
	if sum.Written != 5 || sum.Bytes != int64(file.Len()) || !bytes.HasPrefix(file.Bytes(), []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		t.Errorf("%+v, %d bytes: %x", sum, file.Len(), file.Bytes()[:4])
	}
	if a.Capturing() {
		t.Error("the tap is on after the end")
	}
	asking := dial(t, a)
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
	}(dial(t, a))
	awaitTap(t, asking, true)
	if _, err := dial(t, a).Capture(t.Context(), CaptureRequest{}, io.Discard); err == nil || !strings.Contains(err.Error(), "a capture of this adapter is running") {
		t.Errorf("a second capture: %v", err)
	}
	end()
	if r := <-done; r.err != nil || r.sum.Bytes != int64(file.Len()) {
		t.Errorf("%+v, %d bytes", r, file.Len())
	}
	awaitTap(t, asking, false)
}

// TestCaptureEndsWithEitherSide: if the client disconnects, the tap is removed. If the server closes, the client gets an error.
func TestCaptureEndsWithEitherSide(t *testing.T) {
	a := newPair(t)
	c := dial(t, a)
	r, err := c.exchange(inspect.Request{Capture: &inspect.CaptureRequest{}})
	must(t, err)
	if !r.Streams || !a.Capturing() {
		t.Errorf("%+v, tap %v", r, a.Capturing())
	}
	must(t, c.Close())
	awaitTap(t, dial(t, a), false)
	done := make(chan error, 1)
	go func(c *Client) {
		_, err := c.Capture(context.Background(), CaptureRequest{}, io.Discard)
		done <- err
	}(dial(t, a))
	awaitTap(t, dial(t, a), true)
	must(t, a.Close())
	if a.Capturing() {
		t.Error("the tap outlives the adapter")
	}
	if err := <-done; err == nil {
		t.Error("a capture that was cut off succeeded")
	}
}
