package ndk

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// A queue pair that is closed ends the Connect that has it, also while the neighbour is looked for, which takes 3 s here.
func TestQPClosedWhileConnectResolves(t *testing.T) {
	t.Parallel()
	_, b, addr := overVeth(t, nd.DatapathUDP, "generic")
	e, other := newEnd(t, b, 64), newEnd(t, b, 64)
	nobody := netip.AddrPortFrom(addr[1].Next(), 9)
	began := time.Now()
	p := ways[0].dials(t, e, nobody, hello)
	want(t, "connect", p.inline, StatusPending)
	if at, s := e.ctr.LocalAddress(); s != StatusSuccess || at.Port() == 0 {
		t.Errorf("local address %v, %s", at, s.Name())
	}
	want(t, "second connect", ways[0].dials(t, &end{a: b, qp: e.qp, ctr: other.connector(t)}, nobody, hello).inline, StatusConnectionActive)
	closing := make(chan struct{})
	want(t, "close", e.qp.Close(func(any) { close(closing) }, nil), StatusPending) // its connector is open
	want(t, "connect", p.finish(t), StatusCancelled)
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("it took %v: it waited for the search", took)
	}
	closed(t, e.ctr.Close)
	e.ctr = nil
	receive(t, "close of the queue pair", closing)
}
