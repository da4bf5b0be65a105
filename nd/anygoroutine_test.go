package nd

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/conformance"
)

// crowd has the arguments for the methods of a rig's objects.
type crowd struct {
	r              *rig
	at             netip.AddrPort // a listener's address
	client, server *end
	source         *MemoryRegion // memory that no request writes to
	window         *MemoryWindow
	srq            *SharedReceiveQueue
	loose          *Connector // without a connection
}

// argument makes the arguments of methods. Most addresses and entry lists let requests move bytes.
func (c *crowd) argument(method string, t reflect.Type, rng *rand.Rand) (any, bool) {
	switch reflect.Zero(reflect.PointerTo(t)).Interface().(type) {
	case *context.Context:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(3))*time.Millisecond)
		time.AfterFunc(10*time.Millisecond, cancel)
		return ctx, true
	case *uint64:
		if method == "QueuePair.Read" || method == "QueuePair.Write" {
			return c.server.mr.Address(), true
		}
		return rng.Uint64N(4), true
	case *uint32:
		return rng.Uint32N(4), true
	case *int:
		if method == "MemoryRegion.SGE" {
			return 0, true // the region may be registered or not
		}
		return rng.IntN(64), true
	case *Token:
		return c.server.mr.RemoteToken(), true
	case *[]SGE:
		if method == "QueuePair.Send" || method == "QueuePair.Write" {
			return []SGE{c.source.SGE(rng.IntN(64), rng.IntN(2048))}, true
		}
		return []SGE{c.client.mr.SGE(2048, 2048)}, true
	case *[]Result:
		return make([]Result, rng.IntN(8)), true
	case *[]byte:
		if method == "QueuePair.Bind" {
			return c.client.mr.Bytes()[:64], true
		}
		return make([]byte, 64), true
	case *OpFlags:
		return []OpFlags{0, 0, OpDefer, OpSilentSuccess, OpReadFence}[rng.IntN(5)], true
	case *MRFlags:
		return MRFlags(rng.IntN(8)), true
	case *NotifyType:
		return []NotifyType{NotifyAny, NotifySolicited, NotifyErrors}[rng.IntN(3)], true
	case *time.Duration:
		return time.Duration(rng.IntN(100)) * time.Microsecond, true
	case *netip.Addr:
		return c.r.addr[rng.IntN(2)], true
	case *netip.AddrPort:
		return c.at, true
	case *ConnectParams:
		return helloParams, true
	case **tls.Config:
		return (*tls.Config)(nil), true // connections stay plain
	case *TLSPolicy:
		return TLSPolicy(rng.IntN(3)), true
	case *AdapterConfig:
		return AdapterConfig{Address: netip.MustParseAddr("192.0.2.1")}, true // opens no adapter
	case *CaptureConfig:
		return CaptureConfig{SnapLength: 64, BufferBytes: 128 << 10}, true
	}
	return c.object(t)
}

// object makes the arguments that are objects or contain objects.
func (c *crowd) object(t reflect.Type) (any, bool) {
	for _, v := range []any{
		c.client.qp, c.loose, c.client.mr, c.window, c.srq, c.client.cq,
		QueuePairConfig{ReceiveCQ: c.client.cq, InitiatorCQ: c.client.cq, ReceiveDepth: 4, InitiatorDepth: 4},
	} {
		if reflect.TypeOf(v) == t {
			return v, true
		}
	}
	return nil, false
}

// TestMethodsFromAnyGoroutine calls every method of every object concurrently, and closes the objects at the end.
func TestMethodsFromAnyGoroutine(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	p, err := OpenProvider()
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	all := &conformance.AnyGoroutine{
		Never: map[string]string{
			"Adapter.Close":         "tests of their own end whole adapters",
			"Adapter.Stall":         "of tests",
			"Adapter.Relayed":       "of tests",
			"Provider.Close":        "it is open for all rounds",
			"Capture.Next":          "one goroutine at a time, and waits for packets: it is called below",
			"CompletionQueue.Close": "busy while a queue pair reports there, and closed with the ends",
		},
		Last: []string{
			"Connector.Close", "Connector.Disconnect", "Connector.Reject", "QueuePair.Close", "QueuePair.Flush", "MemoryRegion.Close", "MemoryRegion.Deregister",
			"MemoryWindow.Close", "SharedReceiveQueue.Close", "Listener.Close", "EndpointListener.Close", "Endpoint.Close", "Endpoint.Disconnect", "Capture.Stop", "Notification.Cancel",
		},
		Discard: func(v any) {
			if closer, ok := v.(interface{ Close() error }); ok {
				_ = closer.Close() // busy or closed, because other goroutines use it
			}
			switch v := v.(type) {
			case *Capture:
				v.Stop()
			case *Notification:
				v.Cancel()
			}
		},
	}
	missing := func() error {
		return all.Missing((*Provider)(nil), (*Adapter)(nil), (*CompletionQueue)(nil), (*QueuePair)(nil), (*SharedReceiveQueue)(nil), (*MemoryRegion)(nil),
			(*MemoryWindow)(nil), (*Connector)(nil), (*Listener)(nil), (*EndpointListener)(nil), (*Endpoint)(nil), (*Capture)(nil), (*Notification)(nil))
	}
	// On a busy machine it takes more rounds until every method was called.
	for seed, end := uint64(0), time.Now().Add(patience); seed < 2 || missing() != nil && time.Now().Before(end); seed++ {
		callAll(t, all, r, p, seed)
	}
	must(t, missing())
	moveEverything(t, r) // both adapters still work
}

// callAll makes one object of every kind, calls all methods, and closes the objects that are left.
func callAll(t *testing.T, all *conformance.AnyGoroutine, r *rig, p *Provider, seed uint64) {
	t.Run("", func(t *testing.T) {
		c := &crowd{r: r}
		c.client, c.server = r.connect(t, 4096)
		var l *Listener
		l, c.at = listen(t, r.b, 0)
		el, err := Listen(netip.AddrPortFrom(r.addr[1], 0), EndpointConfig{Adapter: r.b, MemoryBytes: 4096})
		must(t, err)
		t.Cleanup(func() { must(t, el.Close()) })
		at, err := el.Address()
		must(t, err)
		accepted := start(func() error { _, err := el.Accept(t.Context()); return err })
		ep, err := Dial(t.Context(), at, EndpointConfig{Adapter: r.a, MemoryBytes: 4096})
		must(t, err)
		t.Cleanup(func() { must(t, ep.Close()) })
		must(t, finish(t, "accept", accepted))
		c.source, err = r.a.RegisterMemory(make([]byte, 4096), 0)
		must(t, err)
		t.Cleanup(func() { must(t, c.source.Close()) })
		region, err := r.a.RegisterMemory(make([]byte, 64), 0)
		must(t, err)
		t.Cleanup(func() { must(t, region.Close()) })
		c.window, err = r.a.CreateMemoryWindow()
		must(t, err)
		t.Cleanup(func() { must(t, c.window.Close()) })
		c.srq, err = r.a.CreateSharedReceiveQueue(16, 1, 2)
		must(t, err)
		t.Cleanup(func() { must(t, c.srq.Close()) })
		c.loose, err = r.a.CreateConnector()
		must(t, err)
		t.Cleanup(func() { must(t, c.loose.Close()) })
		capture, err := r.b.StartCapture(CaptureConfig{BufferBytes: 128 << 10})
		must(t, err)
		read := start(func() error {
			var packet CapturedPacket
			for capture.Next(&packet) == nil {
			}
			return nil
		})
		t.Cleanup(func() {
			capture.Stop()
			must(t, finish(t, "the capture's reader", read))
		})
		armed, err := c.client.cq.Arm(NotifyAny)
		must(t, err)
		all.Arguments = c.argument
		must(t, all.Run(700*time.Millisecond, seed, p, r.a, c.client.cq, c.client.qp, c.client.ctr, region, c.window, c.srq, c.loose, l, el, ep, capture, armed))
	})
}
