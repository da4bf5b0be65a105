package apps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ndxdp/ndxdp/bench"
)

// The service has one method, which returns its argument.
const (
	echoService = "ndperf.Echo"
	echoMethod  = "Say"
)

var echoDesc = grpc.ServiceDesc{
	ServiceName: echoService,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: echoMethod,
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			said := new(wrapperspb.BytesValue)
			if err := decode(said); err != nil {
				return nil, err
			}
			return said, nil
		},
	}},
}

func serveGRPC(l net.Listener, _ bench.AppSpec, _ time.Time) (stop func() error) {
	server := grpc.NewServer()
	server.RegisterService(&echoDesc, struct{}{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return func() error {
		server.Stop()
		return <-served
	}
}

// connectGRPC makes a connection for each caller, because gRPC would use one for all.
func connectGRPC(ctx context.Context, t *transport, s bench.AppSpec, deadline time.Time) (*client, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	var conns []*grpc.ClientConn
	c := &client{close: func() {
		cancel()
		for _, conn := range conns {
			_ = conn.Close() // fails if it was already closed
		}
	}}
	for range s.Connections {
		conn, err := grpc.NewClient("passthrough:///"+t.peer.String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return t.dial(ctx, "tcp", address) }))
		if err != nil {
			c.close()
			return nil, err
		}
		conns = append(conns, conn)
		said, heard, k := &wrapperspb.BytesValue{Value: make([]byte, s.Size)}, new(wrapperspb.BytesValue), uint64(0)
		c.calls = append(c.calls, func() error {
			k++
			number(said.Value, k)
			if err := conn.Invoke(ctx, "/"+echoService+"/"+echoMethod, said, heard); err != nil {
				return errors.Join(err, context.Cause(ctx))
			}
			if !bytes.Equal(said.GetValue(), heard.GetValue()) {
				return fmt.Errorf("%w: call %d", errWrong, k)
			}
			return nil
		})
	}
	return c, nil
}
