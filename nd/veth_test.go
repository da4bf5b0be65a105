package nd

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// rig is two adapters on the ends of a veth pair.
type rig struct {
	a, b *Adapter
	addr [2]netip.Addr
	pair *netlab.Pair
}

func newRig(t testing.TB, mtu int, dp Datapath) *rig {
	t.Helper()
	return newRigOf(t, mtu, AdapterConfig{Datapath: dp})
}

// newRigOf is newRig with another configuration of the adapters.
func newRigOf(t testing.TB, mtu int, cfg AdapterConfig) *rig {
	t.Helper()
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: mtu})
	r := &rig{addr: [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}, pair: pair}
	for i, a := range []**Adapter{&r.a, &r.b} {
		cfg.Address = r.addr[i]
		*a = openIn(t, []*netlab.Namespace{pair.A, pair.B}[i], cfg)
	}
	return r
}

// newImpatientRig is a rig on which silence ends a wait after a second or two.
func newImpatientRig(t testing.TB) *rig {
	t.Helper()
	return newRigOf(t, 1500, AdapterConfig{engine: provider.Config{DeadPeer: 1500 * time.Millisecond, Disconnect: time.Second}})
}

// end is one connected side.
type end struct {
	cq  *CompletionQueue
	qp  *QueuePair
	ctr *Connector
	mr  *MemoryRegion
}

func newEnd(t testing.TB, a *Adapter, size int) *end {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e := &end{}
	var err error
	e.cq, err = a.CreateCompletionQueue(256)
	must(err)
	e.qp, err = a.CreateQueuePair(QueuePairConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: 64, InitiatorDepth: 512, InlineSize: 64})
	must(err)
	e.ctr, err = a.CreateConnector()
	must(err)
	e.mr, err = a.AllocateMemory(size, MRAllowRemoteRead|MRAllowRemoteWrite)
	must(err)
	t.Cleanup(func() {
		for _, close := range []func() error{e.ctr.Close, e.qp.Close, e.cq.Close, e.mr.Close} {
			must(close())
		}
	})
	return e
}

// connect makes a connection from a to a listener on b.
func (r *rig) connect(t testing.TB, size int) (client, server *end) {
	t.Helper()
	client, server = newEnd(t, r.a, size), newEnd(t, r.b, size)
	r.join(t, client, server)
	return client, server
}

// result waits for one result.
func (e *end) result(t testing.TB) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var res [1]Result
	for e.cq.GetResults(res[:]) == 0 {
		err := e.cq.Notify(ctx, NotifyAny)
		if errors.Is(err, ErrDeviceRemoved) { // notifications fail, and canceled requests still get results soon
			eventually(t, "a result of a removed adapter", func() bool { return e.cq.GetResults(res[:]) != 0 })
			break
		}
		must(t, err)
	}
	return res[0]
}

func TestVethMovesBytes(t *testing.T) {
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative} {
		for _, mtu := range []int{1500, 9000, 65000} {
			t.Run(dp.String(), func(t *testing.T) {
				r := newRig(t, mtu, dp)
				const size = 1 << 20
				client, server := r.connect(t, 4*size)
				for i := range client.mr.Bytes() {
					client.mr.Bytes()[i] = byte(i*7 + i>>8)
				}
				if err := client.qp.Write(1, []SGE{client.mr.SGE(0, size)}, server.mr.Address()+100, server.mr.RemoteToken(), 0); err != nil {
					t.Fatal(err)
				}
				if res := client.result(t); res.Status != StatusSuccess || res.RequestID != 1 || res.Type != RequestWrite {
					t.Fatalf("write: %+v", res)
				}
				r.b.sync()
				if !bytes.Equal(client.mr.Bytes()[:size], server.mr.Bytes()[100:][:size]) {
					t.Fatal("the Write did not arrive whole")
				}
				if err := server.qp.Receive(2, []SGE{server.mr.SGE(2*size, size)}); err != nil {
					t.Fatal(err)
				}
				if err := client.qp.Send(3, []SGE{client.mr.SGE(5, size-5)}, 0); err != nil {
					t.Fatal(err)
				}
				if res := server.result(t); res.Status != StatusSuccess || res.Bytes != size-5 || res.RequestID != 2 {
					t.Fatalf("receive: %+v", res)
				}
				if res := client.result(t); res.Status != StatusSuccess || res.Type != RequestSend {
					t.Fatalf("send: %+v", res)
				}
				r.b.sync()
				if !bytes.Equal(client.mr.Bytes()[5:size], server.mr.Bytes()[2*size:][:size-5]) {
					t.Fatal("the Send did not arrive whole")
				}
				if err := client.qp.Read(4, []SGE{client.mr.SGE(3*size, size)}, server.mr.Address()+100, server.mr.RemoteToken(), 0); err != nil {
					t.Fatal(err)
				}
				if res := client.result(t); res.Status != StatusSuccess || res.Type != RequestRead {
					t.Fatalf("read: %+v", res)
				}
				if !bytes.Equal(client.mr.Bytes()[3*size:], server.mr.Bytes()[100:][:size]) {
					t.Fatal("the Read did not arrive whole")
				}
				t.Logf("%+v", r.a.Stats())
				t.Logf("%+v", r.a.Datapath())
			})
		}
	}
}
