package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/valyala/fasthttp"
)

// fastCase describes a case of fasthttp.
type fastCase struct {
	name     string
	callers  int
	medium   bool // answers of 64 KiB
	pipeline bool // all callers on one connection
}

func fasthttpCases() []program {
	var out []program
	for _, f := range []fastCase{
		{name: "fasthttp-64B-1", callers: 1},
		{name: "fasthttp-64B-16", callers: 16},
		{name: "fasthttp-64B-128", callers: 128},
		{name: "fasthttp-64KiB-16", callers: 16, medium: true},
		{name: "fasthttp-pipeline-64", callers: 64, pipeline: true},
	} {
		out = append(out, program{
			name: f.name, serve: serveFast,
			connect: func(_ context.Context, n *network) (*load, error) { return connectFast(n, f), nil },
		})
	}
	return out
}

func serveFast(n *network) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	medium := content(mediumAnswer, 0)
	server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		if bytes.HasPrefix(ctx.Path(), []byte(pathBytes)) {
			ctx.SetBody(medium)
			return
		}
		var body [small]byte
		copy(body[:], ctx.Path())
		ctx.SetBody(body[:])
	}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return &service{stop: func() error { return errors.Join(server.Shutdown(), <-served) }}, nil
}

func connectFast(n *network, f fastCase) *load {
	dial := func(string) (net.Conn, error) { return n.dialPeer(context.Background()) }
	l := &load{}
	var do func(*fasthttp.Request, *fasthttp.Response) error
	if f.pipeline {
		client := &fasthttp.PipelineClient{Addr: n.there(), Dial: dial, MaxConns: 1, MaxPendingRequests: f.callers}
		do, l.close = client.Do, func() error { return nil } // it has no method to close
	} else {
		client := &fasthttp.HostClient{Addr: n.there(), Dial: dial, MaxConns: f.callers}
		do, l.close = client.Do, func() error { client.CloseIdleConnections(); return nil }
	}
	l.calls = each(f.callers, func(caller int) func() error {
		request, answer := &fasthttp.Request{}, &fasthttp.Response{}
		k := 0
		return func() error {
			k++
			path := pathBytes
			if !f.medium {
				path = fmt.Sprintf("%s%d/%d", pathEcho, caller, k)
			}
			request.SetRequestURI("http://" + n.there() + path)
			if err := do(request, answer); err != nil {
				return err
			}
			if f.medium {
				return stamped(answer.Body(), mediumAnswer, 0)
			}
			want := make([]byte, small)
			copy(want, path)
			if !bytes.Equal(answer.Body(), want) {
				return fmt.Errorf("%w: %s was answered %q", errWrong, path, answer.Body())
			}
			return nil
		}
	})
	return l
}
