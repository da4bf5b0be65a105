package nd

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

// If a listener closes while requests wait in its queue, each is refused at once. An adapter that closes refuses them as well. Over
// plain sockets the refusal leaves through a socket that closes with the request.
func TestCloseRefusesWaitingRequests(t *testing.T) {
	for _, c := range []struct {
		name  string
		dials int
		close func(*EndpointListener) error
	}{
		{"listener", 1, (*EndpointListener).Close},
		{"listener with five", 5, (*EndpointListener).Close},
		{"adapter", 5, func(l *EndpointListener) error { return l.Adapter.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := newLoopRig(t, DatapathUDP)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			l, err := Listen(netip.AddrPortFrom(r.addr[1], 0), EndpointConfig{Adapter: r.b})
			must(t, err)
			at, err := l.Address()
			must(t, err)
			var waiting []<-chan error
			for range c.dials {
				waiting = append(waiting, start(func() error {
					_, err := Dial(ctx, at, EndpointConfig{Adapter: r.a, MemoryBytes: 4096})
					return err
				}))
			}
			eventually(t, "the requests arrive", func() bool { return r.b.Stats().Connections.Open == uint64(c.dials) })
			must(t, c.close(l))
			for _, w := range waiting {
				if err := finish(t, "dial", w); !errors.Is(err, ErrConnectionRefused) {
					t.Errorf("dial: %v, want connection refused", err)
				}
			}
		})
	}
}
