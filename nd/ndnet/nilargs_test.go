package ndnet

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/nd"
)

// A nil argument is refused with an error, wherever nil is possible.
func TestNilArguments(t *testing.T) {
	n := networks(t, Config{})
	var none context.Context
	client, _, stop, err := pipe(n)
	must(t, err)
	c := client.(*Conn)
	calls := map[string]func() error{
		"Dialer.DialContext 1":  func() error { _, err := new(Dialer).DialContext(none, "nd", "127.0.0.1:80"); return err },
		"ListenConfig.Listen 1": func() error { _, err := new(ListenConfig).Listen(none, "nd", "127.0.0.1:80"); return err },
		"Conn.ReadFrom 1":       func() error { _, err := c.ReadFrom(nil); return err },
		"Conn.WriteTo 1":        func() error { _, err := c.WriteTo(nil); return err },
		"New 1":                 func() error { _, err := New(nil, Config{}); return err },
		"Network.Wait 1":        func() error { return n[0].Wait(none) },
		"Wait 1":                func() error { return Wait(none) },
		"Network.DialContext 1": func() error {
			_, err := n[0].DialContext(none, "nd", n[1].local.String()+":80")
			return err
		},
	}
	n[0].UseTLS(nil, nil) // without TLS
	all := maps.Clone(calls)
	all["Network.UseTLS 1"], all["Network.UseTLS 2"] = nil, nil
	if err := conformance.CheckNil(all, (*Buffer)(nil), (*Conn)(nil), (*Dialer)(nil), (*ListenConfig)(nil), (*Listener)(nil), (*Network)(nil), New, Wait); err != nil {
		t.Error(err)
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, nd.ErrInvalidParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stop() // nothing is left of the calls
}
