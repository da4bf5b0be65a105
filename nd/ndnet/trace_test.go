package ndnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"slices"
	"sync"
	"testing"
)

// hooks records the events of net/http/httptrace.
type hooks struct {
	mu   sync.Mutex
	said []string
}

func (h *hooks) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

func (h *hooks) context(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(i httptrace.DNSStartInfo) { h.note("look up %s", i.Host) },
		DNSDone:      func(i httptrace.DNSDoneInfo) { h.note("found %v", i.Err == nil) },
		ConnectStart: func(network, addr string) { h.note("connect %s %s", network, addr) },
		ConnectDone:  func(network, addr string, err error) { h.note("connected %s %s %v", network, addr, err == nil) },
	})
}

// The hooks of net/http/httptrace are called for each attempt to connect and for its result, as with net.Dialer.
func TestTrace(t *testing.T) {
	n := networks(t, Config{})
	l, err := n[1].Listen("tcp", ":0")
	must(t, err)
	at := l.Addr().String()
	var h hooks
	c, err := n[0].DialContext(h.context(t.Context()), "tcp4", at)
	must(t, err)
	must(t, c.Close())
	must(t, l.Close())
	if _, err = n[0].DialContext(h.context(t.Context()), "tcp", at); err == nil {
		t.Fatal("no listener")
	}
	if want := []string{"connect tcp4 " + at, "connected tcp4 " + at + " true", "connect tcp " + at, "connected tcp " + at + " false"}; !slices.Equal(h.said, want) {
		t.Errorf("heard %q, want %q", h.said, want)
	}
}

// The hooks are called for each address of a name and for its look-up, but not for connections of the resolver to its servers.
func TestTraceOfNames(t *testing.T) {
	asked := errors.New("asked")
	var h hooks
	d := &Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.ConnectStart != nil {
			trace.ConnectStart(network, address)
		}
		_, _ = new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1") // no server listens there
		return nil, asked
	}}}
	if _, err := d.DialContext(h.context(t.Context()), "tcp", "ndnet.test.:80"); err == nil {
		t.Fatal("the name was found")
	}
	if want := []string{"look up ndnet.test.", "found false"}; !slices.Equal(h.said, want) {
		t.Errorf("heard %q, want %q", h.said, want)
	}
	h.said = nil
	if _, err := d.DialContext(h.context(t.Context()), "tcp", "localhost:1"); err == nil {
		t.Fatal("somebody listens")
	}
	for _, want := range []string{"connect tcp 127.0.0.1:1", "connected tcp 127.0.0.1:1 false"} {
		if !slices.Contains(h.said, want) {
			t.Errorf("heard %q, not %q", h.said, want)
		}
	}
}
