package ndnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndnet"
)

// TestNoGoroutineIsLeft: a program that closes what it opened and calls Wait passes goleak, whatever became of its listeners and connections.
func TestNoGoroutineIsLeft(t *testing.T) {
	others := goleak.IgnoreCurrent()
	adapters := ndnet.Adapters{UDPPort: netlabtest.FreePort(t), Datapath: nd.DatapathUDP}
	listen := ndnet.ListenConfig{Adapters: adapters}
	dialer := ndnet.Dialer{Adapters: adapters}
	must := testhelp.Must
	accept := func(l net.Listener, with func(net.Conn)) {
		go func() {
			if c, err := l.Accept(); err == nil {
				with(c)
			}
		}()
	}
	for name, use := range map[string]func(t *testing.T){
		"one byte there and back": func(t *testing.T) {
			l, err := listen.Listen(t.Context(), "nd", "127.0.0.1:0")
			must(t, err)
			accept(l, func(c net.Conn) {
				_, err := io.Copy(c, c)
				if err := errors.Join(err, c.Close()); err != nil {
					t.Error(err)
				}
			})
			c, err := dialer.Dial("nd", l.Addr().String())
			must(t, err)
			_, err = c.Write([]byte{7})
			must(t, err)
			_, err = io.ReadFull(c, make([]byte, 1))
			must(t, errors.Join(err, c.Close(), l.Close()))
		},
		"a listener on every address that nobody calls": func(t *testing.T) {
			l, err := listen.Listen(t.Context(), "nd", ":0")
			must(t, err)
			must(t, l.Close())
		},
		"a listener that is closed in Accept": func(t *testing.T) {
			l, err := listen.Listen(t.Context(), "nd", "127.0.0.1:0")
			must(t, err)
			ended := make(chan error, 1)
			go func() {
				_, err := l.Accept()
				ended <- err
			}()
			must(t, l.Close())
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		},
		"a port that nobody listens on": func(t *testing.T) {
			l, err := listen.Listen(t.Context(), "nd", "127.0.0.1:0")
			must(t, err)
			at := l.Addr().String()
			must(t, l.Close())
			if c, err := dialer.Dial("nd", at); err == nil {
				t.Error("connected to nobody")
				c.Close()
			}
		},
		"a dial that is given up": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if c, err := dialer.DialContext(ctx, "nd", "127.0.0.1:9"); err == nil {
				t.Error("connected after the context ended")
				c.Close()
			}
		},
		"a web server that is shut down": func(t *testing.T) {
			l, err := listen.Listen(t.Context(), "nd", "127.0.0.1:0")
			must(t, err)
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100<<10)) })}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			transport := &http.Transport{DialContext: dialer.DialContext}
			res, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String())
			must(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			must(t, errors.Join(err, res.Body.Close()))
			transport.CloseIdleConnections()
			must(t, s.Shutdown(t.Context()))
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			use(t)
			must(t, ndnet.Wait(t.Context()))
			var left error
			testhelp.Eventually(t, "the end of all goroutines", func() bool { left = goleak.Find(others); return left == nil })
			if left != nil {
				t.Error(left)
			}
		})
	}
}
