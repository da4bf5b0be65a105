package nd

import (
	"context"
	"maps"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
)

// idleEndpoint is an endpoint that is not connected.
func idleEndpoint(t *testing.T, a *Adapter) *Endpoint {
	t.Helper()
	e, err := newEndpoint(a, EndpointConfig{})
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// idleListener is a listener that is not bound.
func idleListener(t *testing.T, a *Adapter) *Listener {
	t.Helper()
	l, err := a.CreateListener()
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

// nilCall is a call with a nil argument, and its result.
type nilCall struct {
	want Status
	call func() error
}

// endpointCalls has the waiting calls of an endpoint, with a nil context.
func endpointCalls(e *Endpoint) map[string]nilCall {
	var none context.Context
	return map[string]nilCall{
		"Endpoint.Disconnect 1": {ErrInvalidParameter, func() error { return e.Disconnect(none) }},
		"Endpoint.Read 1":       {ErrInvalidParameter, func() error { return e.Read(none, 0, nil) }},
		"Endpoint.Receive 1":    {ErrInvalidParameter, func() error { _, err := e.Receive(none, nil); return err }},
		"Endpoint.Result 1":     {ErrInvalidParameter, func() error { _, err := e.Result(none); return err }},
		"Endpoint.Send 1":       {ErrInvalidParameter, func() error { return e.Send(none, nil) }},
		"Endpoint.Write 1":      {ErrInvalidParameter, func() error { return e.Write(none, 0, nil) }},
	}
}

// Every argument that can be nil is checked: the call returns an error and has no effect.
func TestNilArguments(t *testing.T) { // not parallel: it looks at all captures of an adapter
	r, _ := newLoopRig(t, DatapathUDP)
	e := newEnd(t, r.a, 64)
	w := newWindow(t, r.a)
	l, at := listen(t, r.a, 0)
	idle := idleListener(t, r.a)
	srq, err := r.a.CreateSharedReceiveQueue(1, 1, 0)
	must(t, err)
	p, err := OpenProvider()
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	capture, err := r.a.StartCapture(CaptureConfig{})
	must(t, err)
	t.Cleanup(capture.Stop)
	endpoint := idleEndpoint(t, r.a)
	endpoints, err := Listen(netip.AddrPortFrom(r.addr[0], 0), EndpointConfig{Adapter: r.a})
	must(t, err)
	t.Cleanup(func() { must(t, endpoints.Close()) })

	armed := arm(t, e, NotifyAny)
	var none context.Context
	cfg := QueuePairConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq}
	ctx := t.Context()
	calls := map[string]nilCall{
		"Adapter.CreateQueuePairWithSRQ 1": {ErrInvalidParameterN(4), func() error { _, err := r.a.CreateQueuePairWithSRQ(nil, cfg); return err }},
		"Adapter.Stall 1":                  {StatusSuccess, func() error { return nil }}, // a method for tests
		"Capture.Next 1":                   {ErrInvalidParameter, func() error { return capture.Next(nil) }},
		"CompletionQueue.Notify 1":         {ErrInvalidParameter, func() error { return e.cq.Notify(none, NotifyAny) }},
		"Connector.Accept 1":               {ErrInvalidParameter, func() error { return e.ctr.Accept(none, e.qp, ConnectParams{}) }},
		"Connector.Accept 2":               {ErrInvalidParameterN(1), func() error { return e.ctr.Accept(ctx, nil, ConnectParams{}) }},
		"Connector.CompleteConnect 1":      {ErrInvalidParameter, func() error { return e.ctr.CompleteConnect(none) }},
		"Connector.Connect 1":              {ErrInvalidParameter, func() error { return e.ctr.Connect(none, e.qp, at, ConnectParams{}) }},
		"Connector.Connect 2":              {ErrInvalidParameterN(1), func() error { return e.ctr.Connect(ctx, nil, at, ConnectParams{}) }},
		"Connector.Disconnect 1":           {ErrInvalidParameter, func() error { return e.ctr.Disconnect(none) }},
		"Connector.NotifyDisconnect 1":     {ErrInvalidParameter, func() error { return e.ctr.NotifyDisconnect(none) }},
		"Connector.UseTLS 1":               {StatusSuccess, func() error { return e.ctr.UseTLS(nil) }}, // without TLS
		"Dial 1":                           {ErrInvalidParameter, func() error { _, err := Dial(none, at, EndpointConfig{Adapter: r.a}); return err }},
		"EndpointListener.Accept 1":        {ErrInvalidParameter, func() error { _, err := endpoints.Accept(none); return err }},
		"Listener.ArmConnectionRequest 1":  {ErrInvalidParameterN(1), func() error { _, err := l.ArmConnectionRequest(nil); return err }},
		"Listener.GetConnectionRequest 1":  {ErrInvalidParameter, func() error { return l.GetConnectionRequest(none, e.ctr) }},
		"Listener.GetConnectionRequest 2":  {ErrInvalidParameterN(1), func() error { return l.GetConnectionRequest(ctx, nil) }},
		"Listener.UseTLS 1":                {StatusSuccess, func() error { return idle.UseTLS(nil, TLSRequired) }}, // without TLS
		"Notification.Wait 1":              {ErrInvalidParameter, func() error { return armed.Wait(none) }},
		"Provider.NotifyAddressChange 1":   {ErrInvalidParameter, func() error { return p.NotifyAddressChange(none) }},
		"QueuePair.Bind 2":                 {ErrInvalidParameterN(2), func() error { return e.qp.Bind(1, nil, w, nil, 0) }},
		"QueuePair.Bind 3":                 {ErrInvalidParameterN(3), func() error { return e.qp.Bind(1, e.mr, nil, nil, 0) }},
		"QueuePair.Invalidate 2":           {ErrInvalidParameterN(2), func() error { return e.qp.Invalidate(1, nil, 0) }},
		"SharedReceiveQueue.Notify 1":      {ErrInvalidParameter, func() error { return srq.Notify(none) }},
	}
	maps.Copy(calls, endpointCalls(endpoint))
	if err := conformance.CheckNil(
		calls, (*Adapter)(nil), (*Capture)(nil), (*CompletionQueue)(nil), (*Connector)(nil), (*Datapath)(nil), (*Endpoint)(nil),
		(*EndpointListener)(nil), (*Error)(nil), (*Limits)(nil), (*Listener)(nil), (*MemoryRegion)(nil), (*MemoryWindow)(nil), (*Notification)(nil),
		(*Provider)(nil), (*QueuePair)(nil), (*RequestType)(nil), (*SharedReceiveQueue)(nil), (*Status)(nil),
		Dial, DropReasons, ErrInvalidParameterN, LimitNames, Listen, OpenAdapter, OpenProvider, ParseDatapath,
	); err != nil {
		t.Error(err)
	}
	before := e.ctr.state()
	for name, c := range calls {
		wantStatus(t, name, c.call(), c.want)
	}
	if e.ctr.state() != before {
		t.Errorf("the connector is %s now", e.ctr.state())
	}
	e.wantNoResult(t)
	r.join(t, e, newEnd(t, r.b, 64)) // the calls had no effect
}
