package ndnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndnet"
)

var must = testhelp.Must

// program closes everything that it opens.
type program struct {
	listen ndnet.ListenConfig
	dialer ndnet.Dialer
}

// TestNoGoroutineIsLeft: if a program closes everything that it opened and calls Wait, no goroutine is left, however its
// listeners and connections ended.
func TestNoGoroutineIsLeft(t *testing.T) {
	others := testhelp.RunningGoroutines()
	adapters := ndnet.Adapters{UDPPort: netlabtest.FreePort(t), Datapath: nd.DatapathUDP}
	p := &program{ndnet.ListenConfig{Adapters: adapters}, ndnet.Dialer{Adapters: adapters}}
	for name, use := range map[string]func(t *testing.T){
		"one byte there and back":                       p.thereAndBack,
		"a listener on every address that nobody calls": p.listenEverywhere,
		"a listener that is closed in Accept":           p.closeInAccept,
		"a port that nobody listens on":                 p.dialNobody,
		"a dial that is given up":                       p.giveUp,
		"a web server that is shut down":                p.shutDown,
	} {
		t.Run(name, func(t *testing.T) {
			use(t)
			must(t, ndnet.Wait(t.Context()))
			if err := others.Leak(); err != nil {
				t.Error(err)
			}
		})
	}
}

func (p *program) thereAndBack(t *testing.T) {
	l, err := p.listen.Listen(t.Context(), "nd", "127.0.0.1:0")
	must(t, err)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			err = errors.Join(err, c.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}()
	c, err := p.dialer.Dial("nd", l.Addr().String())
	must(t, err)
	_, err = c.Write([]byte{7})
	must(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	must(t, errors.Join(err, c.Close(), l.Close()))
}

func (p *program) listenEverywhere(t *testing.T) {
	l, err := p.listen.Listen(t.Context(), "nd", ":0")
	must(t, err)
	must(t, l.Close())
}

func (p *program) closeInAccept(t *testing.T) {
	l, err := p.listen.Listen(t.Context(), "nd", "127.0.0.1:0")
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
}

func (p *program) dialNobody(t *testing.T) {
	l, err := p.listen.Listen(t.Context(), "nd", "127.0.0.1:0")
	must(t, err)
	at := l.Addr().String()
	must(t, l.Close())
	if c, err := p.dialer.Dial("nd", at); err == nil {
		t.Error("connected without a server")
		c.Close()
	}
}

func (p *program) giveUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := p.dialer.DialContext(ctx, "nd", "127.0.0.1:9"); err == nil {
		t.Error("connected after the context ended")
		c.Close()
	}
}

func (p *program) shutDown(t *testing.T) {
	l, err := p.listen.Listen(t.Context(), "nd", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100<<10)) })}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	transport := &http.Transport{DialContext: p.dialer.DialContext}
	res, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String())
	must(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	must(t, errors.Join(err, res.Body.Close()))
	transport.CloseIdleConnections()
	must(t, s.Shutdown(t.Context()))
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
