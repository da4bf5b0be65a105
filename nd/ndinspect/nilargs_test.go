package ndinspect

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/nd"
)

// A nil argument is refused with an error, wherever nil is possible, and no request is sent.
func TestNilArguments(t *testing.T) {
	c := dial(t, newPair(t))
	var none context.Context
	calls := map[string]func() error{
		"Client.Capture 1": func() error { _, err := c.Capture(none, CaptureRequest{}, io.Discard); return err },
		"Client.Capture 3": func() error { _, err := c.Capture(t.Context(), CaptureRequest{}, nil); return err },
	}
	if err := conformance.CheckNil(calls, (*Client)(nil), Dial, Directory, Namespace, Sockets); err != nil {
		t.Error(err)
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, nd.ErrInvalidParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Ask(Request{}); err != nil { // the client still works
		t.Error(err)
	}
}
