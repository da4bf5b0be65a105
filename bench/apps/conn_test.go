package apps

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndnet"
)

var must = testhelp.Must

const patience = time.Minute

// network opens an adapter, and a network for streams on it.
func network(t *testing.T, adapter nd.AdapterConfig, cfg ndnet.Config) *ndnet.Network {
	t.Helper()
	a, err := nd.OpenAdapter(adapter)
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	n, err := ndnet.New(a, cfg)
	must(t, err)
	t.Cleanup(func() { must(t, n.Wait(context.Background())) })
	return n
}

// loopback makes two networks on loopback, which needs no privilege.
func loopback(t *testing.T, cfg ndnet.Config) (n [2]*ndnet.Network) {
	t.Helper()
	port := netlabtest.FreePort(t)
	for i, addr := range []string{"127.0.0.1", "127.0.0.2"} {
		n[i] = network(t, nd.AdapterConfig{Address: netip.MustParseAddr(addr), UDPPort: port, Datapath: nd.DatapathUDP}, cfg)
	}
	return n
}

// pipe makes a connection between two networks.
func pipe(n [2]*ndnet.Network) (client, server net.Conn, stop func(), err error) {
	l, err := n[1].Listen("tcp", ":0")
	if err != nil {
		return nil, nil, nil, err
	}
	accepted := make(chan error, 1)
	go func() {
		var err error
		server, err = l.Accept()
		accepted <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if client, err = n[0].DialContext(ctx, "tcp", l.Addr().String()); err != nil {
		return nil, nil, nil, errors.Join(err, l.Close())
	}
	if err := <-accepted; err != nil {
		return nil, nil, nil, errors.Join(err, l.Close())
	}
	return client, server, func() {
		var ends sync.WaitGroup // if the peer closes too, an end does not wait for a reader of its bytes
		ends.Go(func() { client.Close() })
		ends.Go(func() { server.Close() })
		ends.Wait()
		l.Close()
	}, nil
}

// testConn runs the conformance suite for implementations of net.Conn.
func testConn(t *testing.T, n [2]*ndnet.Network) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) { return pipe(n) })
}

func TestConn(t *testing.T) {
	for _, size := range []int{0, 16 << 10} { // the default, and the smallest buffers
		t.Run(strconv.Itoa(size), func(t *testing.T) { testConn(t, loopback(t, ndnet.Config{MaxBuffer: size})) })
	}
}

// Connections conform over AF_XDP and plain sockets on a pair of interfaces.
func TestConnOverInterfaces(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500})
	for _, d := range []nd.Datapath{nd.DatapathGeneric, nd.DatapathUDP, nd.DatapathRing} {
		t.Run(d.String(), func(t *testing.T) {
			var n [2]*ndnet.Network
			for i, ns := range []*netlab.Namespace{pair.A, pair.B} {
				address := []netip.Prefix{pair.AddrA, pair.AddrB}[i].Addr()
				must(t, ns.Do(func() error {
					n[i] = network(t, nd.AdapterConfig{Address: address, Datapath: d}, ndnet.Config{})
					return nil
				}))
			}
			testConn(t, n)
		})
	}
}

// identity is a certificate for example.com, and a client's settings that trust it.
func identity(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS() // makes a certificate of package httptest; nothing connects to this server
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// gRPC makes calls and streams over TLS.
func TestGRPCOverTLS(t *testing.T) {
	server, client := identity(t)
	n := loopback(t, ndnet.Config{})
	l, err := n[1].Listen("tcp", ":0")
	must(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(server)))
	status := health.NewServer()
	grpc_health_v1.RegisterHealthServer(s, status)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(client)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return n[0].DialContext(ctx, "tcp", address)
		}))
	must(t, err)
	ask := grpc_health_v1.NewHealthClient(c)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 100 {
		res, err := ask.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		must(t, err)
		if res.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatal(res.GetStatus())
		}
	}
	stream, err := ask.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: "x"})
	must(t, err)
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
		grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN, grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	} {
		got, err := stream.Recv()
		must(t, err)
		if got.GetStatus() != want {
			t.Errorf("status %v, want %v", got.GetStatus(), want)
		}
		next := grpc_health_v1.HealthCheckResponse_SERVING
		if want == next {
			next = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		status.SetServingStatus("x", next)
	}
	must(t, c.Close())
	s.Stop()
	must(t, <-served)
}
