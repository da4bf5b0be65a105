package ndnet

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

// listenDial is one way to make connections between the two interfaces of a pair.
type listenDial struct {
	name   string
	listen func() (net.Listener, error)
	dial   func(address string) (net.Conn, error)
}

// networksOf opens an adapter at each interface of a pair.
func networksOf(tb testing.TB, pair *netlab.Pair, cfg nd.AdapterConfig) (n [2]*Network) {
	for end, ns := range []*netlab.Namespace{pair.A, pair.B} {
		cfg.Address = []netip.Prefix{pair.AddrA, pair.AddrB}[end].Addr()
		must(tb, ns.Do(func() error {
			a, err := nd.OpenAdapter(cfg)
			if err != nil {
				return err
			}
			tb.Cleanup(func() { must(tb, a.Close()) })
			if n[end], err = New(a, Config{}); err == nil {
				n[end].bounds.stall = stallOfTests
			}
			return err
		}))
	}
	tb.Cleanup(func() {
		must(tb, n[0].Wait(context.Background()))
		must(tb, n[1].Wait(context.Background()))
	})
	return n
}

// ways are ND over AF_XDP, ND over plain sockets, and kernel TCP, between the interfaces of one pair.
func ways(tb testing.TB, pair *netlab.Pair) (all []listenDial) {
	in := func(ns *netlab.Namespace, f func() error) { must(tb, ns.Do(f)) }
	at := pair.AddrB.Addr().String() + ":0"
	for i, d := range []nd.Datapath{nd.DatapathAuto, nd.DatapathUDP} {
		n := networksOf(tb, pair, nd.AdapterConfig{Datapath: d, UDPPort: nd.DefaultUDPPort + uint16(i)})
		all = append(all, listenDial{
			name:   []string{"nd", "udp"}[i],
			listen: func() (net.Listener, error) { return n[1].Listen("nd", at) },
			dial:   func(address string) (net.Conn, error) { return n[0].Dial("nd", address) },
		})
	}
	return append(all, listenDial{
		name: "tcp",
		listen: func() (l net.Listener, err error) {
			in(pair.B, func() error { l, err = net.Listen("tcp", at); return err })
			return l, err
		},
		dial: func(address string) (c net.Conn, err error) {
			in(pair.A, func() error { c, err = net.Dial("tcp", address); return err })
			return c, err
		},
	})
}

// inProcess are ND and kernel TCP between two ends in this process, on loopback.
func inProcess() []listenDial {
	const at = "127.0.0.1:0"
	return []listenDial{
		{"nd-itself", func() (net.Listener, error) { return Listen("nd", at) }, func(address string) (net.Conn, error) { return Dial("nd", address) }},
		{"tcp-itself", func() (net.Listener, error) { return net.Listen("tcp", at) }, func(address string) (net.Conn, error) { return net.Dial("tcp", address) }},
	}
}

// connect makes n connections. serve runs for the server side of each.
func (w *listenDial) connect(tb testing.TB, n int, serve func(net.Conn)) (clients []net.Conn, stop func()) {
	l, err := w.listen()
	must(tb, err)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	for range n {
		c, err := w.dial(l.Addr().String())
		must(tb, err)
		clients = append(clients, c)
	}
	return clients, func() {
		for _, c := range clients {
			must(tb, c.Close())
		}
		must(tb, l.Close())
		work.Wait()
	}
}

// echo sends back all bytes that it receives.
func echo(c net.Conn) {
	p := make([]byte, 64<<10)
	for {
		n, err := c.Read(p)
		if err != nil {
			return
		}
		if _, err := c.Write(p[:n]); err != nil {
			return
		}
	}
}

// BenchmarkEcho is a round trip of 64 bytes on each of several connections. Use -count 3 to measure the ways alternately.
func BenchmarkEcho(b *testing.B) {
	pair := netlabtest.Pair(b, netlab.PairConfig{MTU: 9000})
	for _, w := range append(ways(b, pair), inProcess()...) {
		for _, n := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", w.name, n), func(b *testing.B) {
				clients, stop := w.connect(b, n, echo)
				defer stop()
				var work sync.WaitGroup
				b.ResetTimer()
				for i, c := range clients {
					work.Go(func() {
						p := make([]byte, 64)
						for k := i; k < b.N; k += n {
							if _, err := c.Write(p); err != nil {
								b.Error(err)
								return
							}
							if _, err := io.ReadFull(c, p); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				work.Wait()
			})
		}
	}
}

// BenchmarkStream writes chunks of 128 KiB in one direction.
func BenchmarkStream(b *testing.B) {
	for _, mtu := range []int{1500, 9000, 65000} {
		pair := netlabtest.Pair(b, netlab.PairConfig{MTU: mtu})
		for _, w := range ways(b, pair) {
			b.Run(fmt.Sprintf("%s/mtu=%d", w.name, mtu), w.stream)
		}
	}
	for _, w := range inProcess() {
		b.Run(w.name, w.stream)
	}
}

func (w *listenDial) stream(b *testing.B) {
	const piece = 128 << 10
	done := make(chan int64, 1)
	clients, stop := w.connect(b, 1, func(c net.Conn) {
		p := make([]byte, piece)
		total := int64(0)
		for n, err := 0, error(nil); err == nil; total += int64(n) {
			n, err = c.Read(p)
		}
		done <- total
	})
	defer stop()
	p := make([]byte, piece)
	b.SetBytes(piece)
	b.ResetTimer()
	for range b.N {
		_, err := clients[0].Write(p)
		must(b, err)
	}
	must(b, clients[0].(interface{ CloseWrite() error }).CloseWrite())
	if got := <-done; got != int64(b.N)*piece {
		b.Fatalf("%d bytes of %d arrived", got, int64(b.N)*piece)
	}
}

// BenchmarkOpen opens a connection, echoes 64 bytes over it and closes it, on 16 goroutines: over ND, and with TLS over ND and TCP.
func BenchmarkOpen(b *testing.B) {
	pair := netlabtest.Pair(b, netlab.PairConfig{})
	client, server := testhelp.NewAuthority(b).Mutual()
	client.ServerName = "127.0.0.1"
	n, at := networksOf(b, pair, nd.AdapterConfig{}), pair.AddrB.Addr().String()+":0"
	overND := func(name string, client, server *tls.Config) listenDial {
		return listenDial{
			name: name,
			listen: func() (net.Listener, error) {
				n[0].UseTLS(client, nil)
				n[1].UseTLS(nil, server)
				return n[1].Listen("nd", at)
			},
			dial: func(address string) (net.Conn, error) { return n[0].Dial("nd", address) },
		}
	}
	for _, w := range []listenDial{
		overND("nd", nil, nil),
		overND("nd-tls", client, server),
		{
			name:   "tcp-tls",
			listen: func() (net.Listener, error) { return tls.Listen("tcp", "127.0.0.1:0", server) },
			dial:   func(address string) (net.Conn, error) { return tls.Dial("tcp", address, client) },
		},
	} {
		b.Run(w.name, func(b *testing.B) {
			l, err := w.listen()
			must(b, err)
			var servers, clients sync.WaitGroup
			servers.Go(func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					servers.Go(func() {
						defer c.Close()
						p := make([]byte, 64)
						_, _ = io.ReadFull(c, p)
						_, _ = c.Write(p)
					})
				}
			})
			b.ReportAllocs()
			b.ResetTimer()
			for i := range 16 {
				clients.Go(func() {
					for k := i; k < b.N && !b.Failed(); k += 16 {
						openOnce(b, &w, l.Addr().String())
					}
				})
			}
			clients.Wait()
			b.StopTimer()
			must(b, l.Close())
			servers.Wait()
		})
	}
}

func openOnce(b *testing.B, w *listenDial, address string) {
	c, err := w.dial(address)
	if err != nil {
		b.Error(err)
		return
	}
	defer c.Close()
	if _, err = c.Write(make([]byte, 64)); err == nil {
		_, err = io.ReadAll(c)
	}
	if err != nil {
		b.Error(err)
	}
}
