package ndhealth

import (
	"context"
	"errors"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/nd"
)

// Every argument that can be nil is refused when it is, by an error.
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
