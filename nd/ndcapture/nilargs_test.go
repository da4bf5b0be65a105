package ndcapture

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// A nil argument is refused with an error, wherever nil is possible, and nothing is captured.
func TestNilArguments(t *testing.T) {
	a := loopback(t, netlabtest.FreePort(t))
	calls := map[string]func() error{
		"Start 1":   func() error { _, err := Start(nil, io.Discard, Config{}); return err },
		"Start 2":   func() error { _, err := Start(a, nil, Config{}); return err },
		"Copy 1":    func() error { _, err := Copy(nil, nd.DatapathInfo{}, &nd.Capture{}, Config{}); return err },
		"Decrypt 1": func() error { _, err := Decrypt(nil, strings.NewReader(""), strings.NewReader("")); return err },
		"Decrypt 2": func() error { _, err := Decrypt(io.Discard, nil, strings.NewReader("")); return err },
		"Decrypt 3": func() error { _, err := Decrypt(io.Discard, strings.NewReader(""), nil); return err },
		"Copy 3":    func() error { _, err := Copy(io.Discard, nd.DatapathInfo{}, nil, Config{}); return err },
	}
	if err := conformance.CheckNil(calls, (*Recording)(nil), Copy, Decrypt, Start); err != nil {
		t.Error(err)
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, nd.ErrInvalidParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a.Capturing() {
		t.Error("it captures")
	}
}
