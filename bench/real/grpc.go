package main

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testing "google.golang.org/grpc/interop/grpc_testing"
)

// grpcCase describes a case of gRPC with the service of gRPC's own benchmarks.
type grpcCase struct {
	name           string
	conns, callers int // callers on all connections together
	call           func(c testing.BenchmarkServiceClient, caller int) (func() error, error)
}

func grpcCases() []program {
	var out []program
	for _, g := range []grpcCase{
		{"grpc-unary-64B-1", 1, 1, grpcEcho},
		{"grpc-unary-64B-16", 1, 16, grpcEcho},
		{"grpc-unary-64B-100", 1, 100, grpcEcho},
		{"grpc-unary-64B-16x4", 16, 64, grpcEcho},
		{"grpc-stream-64B-1", 1, 1, grpcStream},
		{"grpc-stream-64B-16", 1, 16, grpcStream},
		{"grpc-stream-64B-100", 1, 100, grpcStream},
		{"grpc-unary-64KiB-16", 1, 16, grpcDown(64 * kib)},
		{"grpc-unary-1MiB-1", 1, 1, grpcDown(mib)},
		{"grpc-unary-1MiB-4x1", 4, 4, grpcDown(mib)},
		{"grpc-upload-1MiB-1", 1, 1, grpcUp},
	} {
		out = append(out, program{
			name: g.name, serve: serveGRPC,
			connect: func(_ context.Context, n *network) (*load, error) { return connectGRPC(n, g) },
		})
	}
	return out
}

// benchmarkService answers with the requested number of bytes, or with the request's bytes if the number is zero.
type benchmarkService struct {
	testing.UnimplementedBenchmarkServiceServer
}

func answerGRPC(r *testing.SimpleRequest) (*testing.SimpleResponse, error) {
	body := r.GetPayload().GetBody()
	switch size := int(r.GetResponseSize()); {
	case size > 0:
		body = content(size, 0)
	case len(body) > small:
		if err := stamped(body, len(body), 0); err != nil {
			return nil, err
		}
		body = nil
	}
	return &testing.SimpleResponse{Payload: &testing.Payload{Body: body}}, nil
}

func (benchmarkService) UnaryCall(_ context.Context, r *testing.SimpleRequest) (*testing.SimpleResponse, error) {
	return answerGRPC(r)
}

func (benchmarkService) StreamingCall(s testing.BenchmarkService_StreamingCallServer) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return nil // the client has ended the stream
		}
		answer, err := answerGRPC(r)
		if err != nil {
			return err
		}
		if err := s.Send(answer); err != nil {
			return err
		}
	}
}

func serveGRPC(n *network) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	testing.RegisterBenchmarkServiceServer(server, benchmarkService{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return &service{stop: func() error { server.Stop(); return <-served }}, nil
}

func connectGRPC(n *network, g grpcCase) (*load, error) {
	l := &load{}
	var conns []*grpc.ClientConn
	l.close = func() error {
		var errs []error
		for _, c := range conns {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	for range g.conns {
		c, err := grpc.NewClient("passthrough:///"+n.there(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return n.dialPeer(ctx) }))
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		conns = append(conns, c)
	}
	for caller := range g.callers {
		call, err := g.call(testing.NewBenchmarkServiceClient(conns[caller%len(conns)]), caller)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.calls = append(l.calls, call)
	}
	return l, nil
}

func grpcEcho(c testing.BenchmarkServiceClient, caller int) (func() error, error) {
	k := 0
	return func() error {
		k++
		asked := numbered(caller, k)
		answer, err := c.UnaryCall(context.Background(), &testing.SimpleRequest{Payload: &testing.Payload{Body: asked}})
		if err != nil {
			return err
		}
		return equal(answer.GetPayload().GetBody(), asked)
	}, nil
}

func grpcStream(c testing.BenchmarkServiceClient, caller int) (func() error, error) {
	stream, err := c.StreamingCall(context.Background())
	if err != nil {
		return nil, err
	}
	k := 0
	return func() error {
		k++
		asked := numbered(caller, k)
		if err := stream.Send(&testing.SimpleRequest{Payload: &testing.Payload{Body: asked}}); err != nil {
			return err
		}
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		return equal(answer.GetPayload().GetBody(), asked)
	}, nil
}

// grpcDown requests a large answer.
func grpcDown(size int) func(testing.BenchmarkServiceClient, int) (func() error, error) {
	return func(c testing.BenchmarkServiceClient, _ int) (func() error, error) {
		return func() error {
			answer, err := c.UnaryCall(context.Background(), &testing.SimpleRequest{ResponseSize: int32(size)})
			if err != nil {
				return err
			}
			return stamped(answer.GetPayload().GetBody(), size, 0)
		}, nil
	}
}

// grpcUp sends large requests, which the server verifies.
func grpcUp(c testing.BenchmarkServiceClient, _ int) (func() error, error) {
	body := content(mib, 0)
	return func() error {
		_, err := c.UnaryCall(context.Background(), &testing.SimpleRequest{Payload: &testing.Payload{Body: body}})
		return err
	}, nil
}
