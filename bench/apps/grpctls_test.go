package apps

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndnet"
	"github.com/ndxdp/ndxdp/nd/ndtls"
)

// encrypted tells gRPC that connections are encrypted by ND, or by crypto/tls over TCP. It refuses other connections. gRPC then sends
// credentials of calls, and handlers see the identity of the peer in peer.FromContext.
type encrypted struct{}

var errPlain = errors.New("the connection is not encrypted: set TLS of the dialer and of the listener")

func (encrypted) info(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	s, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil, nil, errPlain
	}
	return c, credentials.TLSInfo{
		State: s.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

func (e encrypted) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return e.info(c)
}

func (e encrypted) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return e.info(c)
}

func (encrypted) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (e encrypted) Clone() credentials.TransportCredentials { return e }

func (encrypted) OverrideServerName(string) error { return nil }

// whoDesc has one method, which says how its caller's connection is secured.
var whoDesc = grpc.ServiceDesc{
	ServiceName: "Who", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "AmI",
		Handler: func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			p, _ := peer.FromContext(ctx)
			info := p.AuthInfo.(credentials.TLSInfo)
			fmt.Println(tls.VersionName(info.State.Version), info.SecurityLevel, len(info.State.PeerCertificates))
			return new(emptypb.Empty), nil
		},
	}},
}

// gRPC over encrypted ND connections, with a shared secret in place of certificates.
func Example_grpcCredentials() {
	cfg, err := ndtls.Shared([]byte("32 random bytes from crypto/rand"))
	if err != nil {
		fmt.Println(err)
		return
	}
	port, err := netlabtest.Port() // a port that no other example uses; between machines UDPPort is omitted
	if err != nil {
		fmt.Println(err)
		return
	}
	adapters := ndnet.Adapters{UDPPort: port, Datapath: nd.DatapathUDP}
	listener, err := (&ndnet.ListenConfig{Adapters: adapters, TLS: cfg}).Listen(context.Background(), "nd", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.Creds(encrypted{}))
	server.RegisterService(&whoDesc, struct{}{})
	go server.Serve(listener)
	defer server.Stop()

	dialer := &ndnet.Dialer{Adapters: adapters, TLS: cfg}
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(encrypted{}), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "nd", address)
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	if err := conn.Invoke(context.Background(), "/Who/AmI", new(emptypb.Empty), new(emptypb.Empty)); err != nil {
		fmt.Println(err)
	}
	// Output: TLS 1.3 PrivacyAndIntegrity 1
}
