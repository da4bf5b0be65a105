package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndnet"
)

// BenchmarkHTTP answers net/http requests over package ndnet and over kernel TCP, on the same veth pair.
func BenchmarkHTTP(b *testing.B) {
	pair := netlabtest.Pair(b, netlab.PairConfig{MTU: 9000})
	for _, size := range []int{64, 64 << 10} {
		name := map[int]string{64: "64B", 64 << 10: "64KiB"}[size]
		b.Run("nd/"+name, func(b *testing.B) {
			server, client := ndNetwork(b, pair.B, pair.AddrB.Addr().String()), ndNetwork(b, pair.A, pair.AddrA.Addr().String())
			l, err := server.Listen("tcp", ":0")
			if err != nil {
				b.Fatal(err)
			}
			serveHTTP(b, l, client.DialContext, size)
			if err := errors.Join(server.Wait(b.Context()), client.Wait(b.Context())); err != nil {
				b.Error(err)
			}
		})
		b.Run("tcp/"+name, func(b *testing.B) {
			var l net.Listener
			if err := pair.B.Do(func() (err error) {
				l, err = net.Listen("tcp", net.JoinHostPort(pair.AddrB.Addr().String(), "0"))
				return err
			}); err != nil {
				b.Fatal(err)
			}
			serveHTTP(b, l, func(ctx context.Context, network, address string) (c net.Conn, err error) {
				err = pair.A.Do(func() (err error) {
					c, err = (&net.Dialer{}).DialContext(ctx, network, address)
					return err
				})
				return c, err
			}, size)
		})
	}
}

func ndNetwork(b *testing.B, ns *netlab.Namespace, addr string) *ndnet.Network {
	b.Helper()
	var a *nd.Adapter
	if err := ns.Do(func() (err error) {
		a, err = nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(addr)})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := a.Close(); err != nil {
			b.Error(err)
		}
	})
	n, err := ndnet.New(a, ndnet.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// serveHTTP makes b.N requests of size bytes over one connection.
func serveHTTP(b *testing.B, l net.Listener, dial func(context.Context, string, string) (net.Conn, error), size int) {
	body := strings.Repeat("x", size)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	transport := &http.Transport{DialContext: dial}
	client := &http.Client{Transport: transport}
	url := "http://" + l.Addr().String() + "/"
	b.SetBytes(int64(size))
	for b.Loop() {
		res, err := client.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || n != int64(size) {
			b.Fatalf("%d bytes of %d: %v", n, size, err)
		}
	}
	b.StopTimer()
	transport.CloseIdleConnections()
	if err := server.Close(); err != nil {
		b.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		b.Error(err)
	}
}
