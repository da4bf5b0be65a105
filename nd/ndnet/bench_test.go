package ndnet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
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
	for _, w := range ways(b, pair) {
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
			b.Run(fmt.Sprintf("%s/mtu=%d", w.name, mtu), func(b *testing.B) {
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
			})
		}
	}
}
