package ndinspect

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/nd"
)

// Every argument that can be nil is refused when it is, by an error, and the process is asked nothing.
func TestNilArguments(t *testing.T) {
	s, err := Serve(newPair(t), filepath.Join(t.TempDir(), "s"))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	c, err := Dial(s.Path())
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	var none context.Context
	calls := map[string]func() error{
		"Serve 1":          func() error { _, err := Serve(nil, ""); return err },
		"Client.Capture 1": func() error { _, err := c.Capture(none, CaptureRequest{}, io.Discard); return err },
		"Client.Capture 3": func() error { _, err := c.Capture(t.Context(), CaptureRequest{}, nil); return err },
	}
	if err := conformance.CheckNil(calls, (*Client)(nil), (*Server)(nil), Dial, Directory, Serve, Sockets); err != nil {
		t.Error(err)
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, nd.ErrInvalidParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Ask(Request{}); err != nil { // still of use
		t.Error(err)
	}
}
