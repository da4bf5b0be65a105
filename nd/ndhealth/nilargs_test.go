package ndhealth

import (
	"context"
	"errors"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/nd"
)

// A nil argument is refused with an error, wherever nil is possible.
func TestNilArguments(t *testing.T) {
	var none context.Context
	calls := map[string]func() error{
		"Examine 1": func() error { _, err := Examine(none, Config{Interface: "lo"}); return err },
	}
	if err := conformance.CheckNil(calls, (*Report)(nil), (*Severity)(nil), Adapters, Examine); err != nil {
		t.Error(err)
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, nd.ErrInvalidParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
