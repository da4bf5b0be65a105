package nd

import (
	"context"
	"testing"
)

// A post that fails sends the requests that were deferred before it, whatever the cause of the failure.
func TestFailedPostPushesDeferredRequests(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	foreign := newEnd(t, r.b, 64).mr
	window, err := r.a.CreateMemoryWindow()
	must(t, err)
	t.Cleanup(func() { must(t, window.Close()) })
	posts := map[string]struct {
		post func(e *end) error
		want Status
	}{
		"full queue":       {func(e *end) error { return e.qp.Send(9, nil, 0) }, ErrNoMoreEntries},
		"full, deferred":   {func(e *end) error { return e.qp.Send(9, nil, OpDefer) }, ErrNoMoreEntries},
		"flags of send":    {func(e *end) error { return e.qp.Send(9, nil, OpAllowRead) }, ErrInvalidParameterN(4)},
		"flags of write":   {func(e *end) error { return e.qp.Write(9, nil, 0, 0, OpSolicit) }, ErrInvalidParameterN(6)},
		"flags of read":    {func(e *end) error { return e.qp.Read(9, nil, 0, 0, OpInline) }, ErrInvalidParameterN(6)},
		"entries":          {func(e *end) error { return e.qp.Send(9, repeat(e.mr.SGE(0, 8), 7), 0) }, ErrDataOverrun},
		"far too many":     {func(e *end) error { return e.qp.Send(9, repeat(e.mr.SGE(0, 8), 17), 0) }, ErrDataOverrun},
		"inline":           {func(e *end) error { return e.qp.Send(9, []SGE{e.mr.SGE(0, 4096)}, OpInline) }, ErrBufferOverflow},
		"bind":             {func(e *end) error { return e.qp.Bind(9, foreign, window, nil, 0) }, ErrInvalidParameterN(2)},
		"bind, full":       {func(e *end) error { return e.qp.Bind(9, e.mr, window, e.mr.Bytes(), 0) }, ErrNoMoreEntries},
		"invalidate":       {func(e *end) error { return e.qp.Invalidate(9, nil, 0) }, ErrInvalidParameterN(2)},
		"invalidate, full": {func(e *end) error { return e.qp.Invalidate(9, window, 0) }, ErrNoMoreEntries},
	}
	for name, c := range posts {
		t.Run(name, func(t *testing.T) {
			client, server := postEnd(t, r.a), postEnd(t, r.b)
			r.join(t, client, server)
			for i := range uint64(4) {
				must(t, client.qp.Write(i, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken(), OpDefer))
			}
			wantStatus(t, "post", c.post(client), c.want)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			must(t, client.cq.Notify(ctx, NotifyAny)) // makes no call that could send them
			for i := range uint64(4) {
				client.wantResult(t, i, RequestWrite, StatusSuccess)
			}
			client.wantNoResult(t)
		})
	}
}

// A Read that exceeds a read limit of zero is refused with an error that names the limit, because both sides set the limits long
// before.
func TestReadWithoutLimitNamesIt(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for name, limits := range map[string][2]ConnectParams{
		"not asked for": {{InboundReadLimit: 1}, {InboundReadLimit: 1, OutboundReadLimit: 1}},
		"not allowed":   {{OutboundReadLimit: 1}, {OutboundReadLimit: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := r.ends(t)
			l, at := listen(t, r.b, 0)
			connected := start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, limits[0]) })
			must(t, l.GetConnectionRequest(t.Context(), server.ctr))
			accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, limits[1]) })
			must(t, finish(t, "connect", connected))
			must(t, client.ctr.CompleteConnect(t.Context()))
			must(t, finish(t, "accept", accepted))
			err := client.qp.Read(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken(), 0)
			wantStatus(t, "read", err, ErrInvalidDeviceRequest)
			wantOneLine(t, err, "read limit of the connection is 0", "OutboundReadLimit", "InboundReadLimit")
		})
	}
}
