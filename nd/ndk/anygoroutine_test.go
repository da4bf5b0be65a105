package ndk

import (
	"crypto/tls"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/conformance"
)

// crowd has the arguments for the methods of a rig's objects.
type crowd struct {
	r              *rig
	at             netip.AddrPort // a listener's address
	client, server *end
	window         *MW
	shared         *SharedEndpoint
}

// discard closes an object that a method returned or a callback received.
func discard(v any) {
	if o, ok := v.(interface {
		Close(done CloseCompletion, context any) Status
	}); ok {
		o.Close(func(any) {}, nil)
	}
}

// argument makes the arguments of methods. Most addresses and entry lists let requests move bytes.
func (c *crowd) argument(method string, t reflect.Type, rng *rand.Rand) (any, bool) {
	switch reflect.Zero(reflect.PointerTo(t)).Interface().(type) {
	case *any:
		return nil, true
	case *bool:
		return rng.IntN(2) == 0, true
	case *uint64:
		if method == "QP.Read" || method == "QP.Write" {
			return c.server.mr.Address(), true
		}
		return rng.Uint64N(4), true
	case *uint32:
		return rng.Uint32N(4), true
	case *int:
		if method == "MR.SGE" {
			return 0, true // the region may be registered or not
		}
		return 1 + rng.IntN(63), true
	case *Token:
		return c.server.mr.RemoteToken(), true
	case *[]SGE:
		if method == "QP.Send" || method == "QP.Write" || method == "QP.SendAndInvalidate" {
			return []SGE{c.client.mr.SGE(rng.IntN(64), rng.IntN(1024))}, true
		}
		return []SGE{c.client.mr.SGE(2048, 2048)}, true
	case *[]Result:
		return make([]Result, rng.IntN(8)), true
	case *[]ResultEx:
		return make([]ResultEx, rng.IntN(8)), true
	case *[]byte:
		if method == "QP.Bind" {
			return c.client.mr.Bytes()[:64], true
		}
		return make([]byte, 64), true
	case *[]LogicalAddress:
		return make([]LogicalAddress, 1), true
	case *OpFlags:
		return []OpFlags{0, 0, OpDefer, OpSilentSuccess, OpReadFence}[rng.IntN(5)], true
	case *MRFlags:
		return MRFlags(rng.IntN(8)), true
	case *NotifyType:
		return []NotifyType{NotifyAny, NotifySolicited, NotifyErrors}[rng.IntN(3)], true
	case *netip.AddrPort:
		if method == "Connector.Connect" && rng.IntN(2) == 0 || method == "Adapter.CreateSharedEndpoint" || method == "Listener.Listen" {
			return netip.AddrPortFrom(c.r.addr[0], 0), true
		}
		return c.at, true
	case *ConnectParams:
		return hello, true
	case **tls.Config:
		return (*tls.Config)(nil), true // connections stay plain
	case *TLSPolicy:
		return TLSPolicy(rng.IntN(3)), true
	}
	return c.object(t, rng)
}

// object makes the arguments that are objects, contain objects, or are callbacks. Half of the time there is no callback, and many
// methods then finish before they return.
func (c *crowd) object(t reflect.Type, rng *rand.Rand) (any, bool) {
	if t.Kind() == reflect.Func {
		if rng.IntN(2) == 0 && t != reflect.TypeFor[CloseCompletion]() {
			return nil, true
		}
		return reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value {
			for _, v := range args {
				if !v.IsZero() {
					discard(v.Interface())
				}
			}
			return nil
		}).Interface(), true
	}
	for _, v := range []any{
		c.client.qp, c.client.mr, c.window, c.client.srq, c.client.cq, c.shared, new(LAM),
		QPConfig{ReceiveCQ: c.client.cq, InitiatorCQ: c.client.cq, ReceiveDepth: 4, InitiatorDepth: 4},
	} {
		if reflect.TypeOf(v) == t || t.Kind() == reflect.Interface && reflect.TypeOf(v) == reflect.TypeFor[*MW]() {
			return v, true
		}
	}
	return nil, false
}

// TestMethodsFromAnyGoroutine calls every method of every object concurrently: first on a connection in use, then on all objects,
// which are closed at the end.
func TestMethodsFromAnyGoroutine(t *testing.T) {
	r := newRig(t)
	ends := []string{
		"CQ.Close", "QP.Close", "QP.Flush", "SRQ.Close", "MR.Close", "MR.Deregister", "MW.Close", "Connector.Close", "Connector.Disconnect",
		"Connector.Reject", "Listener.Close", "SharedEndpoint.Close", "PD.Close",
	}
	rough := &conformance.AnyGoroutine{
		Never: map[string]string{"Adapter.Close": "tests of their own end whole adapters"}, Last: ends, Discard: discard,
	}
	gentle := &conformance.AnyGoroutine{Never: map[string]string{}, Discard: discard}
	for _, method := range ends {
		gentle.Never[method] = "others use it"
	}
	missing := func() error {
		return rough.Missing((*Adapter)(nil), (*CQ)(nil), (*QP)(nil), (*SRQ)(nil), (*PD)(nil), (*MR)(nil), (*MW)(nil), (*Connector)(nil), (*Listener)(nil),
			(*SharedEndpoint)(nil))
	}
	// On a busy machine it takes more rounds until every method was called.
	for seed, end := uint64(0), time.Now().Add(patience); seed < 2 || missing() != nil && time.Now().Before(end); seed++ {
		callAll(t, rough, gentle, r, seed)
	}
	must(t, missing())
}

// callAll makes the objects, calls all methods, and closes the objects that are left, because the adapters wait for that.
func callAll(t *testing.T, rough, gentle *conformance.AnyGoroutine, r *rig, seed uint64) {
	t.Run("", func(t *testing.T) {
		c := &crowd{r: r}
		c.client, c.server = r.connected(t)
		closed, forgotten := make(chan struct{}), make(chan struct{})
		atTheEnd(t, func() { close(closed); <-forgotten })
		go func() { defer close(forgotten); c.client.forget(closed) }()
		var victims []any
		made := func(v any, s Status) {
			t.Helper()
			want(t, "create", s, StatusSuccess)
			victims = append(victims, v)
			t.Cleanup(func() { discard(v) })
		}
		l, s := r.b.CreateListener(func(_ any, k *Connector) { discard(k) }, nil, nil, nil)
		made(l, s)
		want(t, "listen", l.Listen(netip.AddrPortFrom(r.addr[1], 0), nil, nil), StatusSuccess)
		c.at, s = l.LocalAddress()
		want(t, "local address", s, StatusSuccess)
		c.window, s = c.client.pd.CreateMW(nil, nil)
		made(c.window, s)
		c.shared, s = r.a.CreateSharedEndpoint(netip.AddrPortFrom(r.addr[0], 0), nil, nil)
		made(c.shared, s)
		pd, s := r.a.CreatePD(nil, nil)
		made(pd, s)
		cq, s := r.a.CreateCQ(64, nil, nil, nil, nil)
		made(cq, s)
		qp, s := c.client.pd.CreateQP(QPConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 4, InitiatorDepth: 4}, nil, nil)
		made(qp, s)
		srq, s := c.client.pd.CreateSRQ(4, 1, 0, nil, nil, nil, nil)
		made(srq, s)
		mr, s := c.client.pd.CreateMR(false, nil, nil)
		made(mr, s)
		k, s := r.a.CreateConnector(nil, nil)
		made(k, s)
		rough.Arguments, gentle.Arguments = c.argument, c.argument
		const long = 700 * time.Millisecond
		var others sync.WaitGroup
		t.Cleanup(others.Wait) // also after a failure: they use the objects, which are closed next
		used := make(chan error, 1)
		others.Go(func() {
			used <- gentle.Run(long, seed+100, c.client.qp, c.client.cq, c.client.ctr, c.client.mr, c.client.srq, c.server.qp)
		})
		mapped := make(chan Status, 1)
		others.Go(func() { mapped <- r.mapAndRelease(long) })
		must(t, rough.Run(long, seed, append(victims, r.a)...))
		must(t, receive(t, "the calls of what others use", used))
		want(t, "map memory", receive(t, "mapping", mapped), StatusSuccess)
	})
}

// forget receives the notifications of the end's completion queue, which would block all callbacks.
func (e *end) forget(closed <-chan struct{}) {
	for {
		select {
		case <-e.told:
		case <-closed:
			return
		}
	}
}

// mapAndRelease maps memory and releases it, again and again for d. A mapping belongs to one goroutine.
func (r *rig) mapAndRelease(d time.Duration) Status {
	buf := make([]byte, PageSize)
	for start := time.Now(); time.Since(start) < d; {
		lam := &LAM{Pages: make([]LogicalAddress, 0, PagesOf(len(buf)))}
		if _, s := r.a.BuildLAM(buf, lam, nil, nil); s != StatusSuccess {
			return s
		}
		r.a.ReleaseLAM(lam)
	}
	return StatusSuccess
}
