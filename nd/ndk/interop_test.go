package ndk

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// overVeth opens an adapter of each package on the two sides of a veth pair.
func overVeth(t *testing.T, ndPath nd.Datapath, ndkPath string) (*nd.Adapter, *Adapter, [2]netip.Addr) {
	t.Helper()
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500})
	addr := [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}
	var a *nd.Adapter
	var b *Adapter
	must(t, pair.A.Do(func() (err error) {
		a, err = nd.OpenAdapter(nd.AdapterConfig{Address: addr[0], Datapath: ndPath})
		return err
	}))
	t.Cleanup(func() { must(t, a.Close()) })
	must(t, pair.B.Do(func() (err error) {
		b, err = OpenAdapter(AdapterConfig{Address: addr[1], Datapath: ndkPath})
		return err
	}))
	closesInTime(t, b)
	return a, b, addr
}

// ndEnd is an end of package nd.
type ndEnd struct {
	cq  *nd.CompletionQueue
	qp  *nd.QueuePair
	mr  *nd.MemoryRegion
	ctr *nd.Connector
}

func newNDEnd(t *testing.T, a *nd.Adapter) *ndEnd {
	t.Helper()
	e := &ndEnd{}
	var err error
	e.cq, err = a.CreateCompletionQueue(64)
	must(t, err)
	e.qp, err = a.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: 8, InitiatorDepth: 8})
	must(t, err)
	e.mr, err = a.RegisterMemory([]byte("from nd to ndk and back"), nd.MRAllowRemoteRead|nd.MRAllowRemoteWrite)
	must(t, err)
	e.ctr, err = a.CreateConnector()
	must(t, err)
	return e
}

func (e *ndEnd) wantOne(t *testing.T, kind nd.RequestType) {
	t.Helper()
	var res [1]nd.Result
	for e.cq.GetResults(res[:]) == 0 {
		must(t, e.cq.Notify(t.Context(), nd.NotifyAny))
	}
	if res[0].Status != nd.StatusSuccess || res[0].Type != kind {
		t.Fatalf("%+v", res[0])
	}
}

// swap sends a message in each direction and reads the peer's memory.
func swap(t *testing.T, theirs *ndEnd, ours *end) {
	t.Helper()
	n := len(theirs.mr.Bytes())
	want(t, "receive", ours.qp.Receive(1, []SGE{ours.mr.SGE(0, 64)}), StatusSuccess)
	must(t, theirs.qp.Receive(2, []nd.SGE{theirs.mr.SGE(0, n)}))
	must(t, theirs.qp.Send(3, []nd.SGE{theirs.mr.SGE(0, n)}, 0))
	if r := ours.wantResult(t, 1, OperationReceive, StatusSuccess); int(r.Bytes) != n {
		t.Fatalf("%+v", r)
	}
	theirs.wantOne(t, nd.RequestSend)
	want(t, "send", ours.qp.Send(4, []SGE{ours.mr.SGE(0, n)}, 0), StatusSuccess)
	ours.wantResult(t, 4, OperationSend, StatusSuccess)
	theirs.wantOne(t, nd.RequestReceive)
	want(t, "read", ours.qp.Read(5, []SGE{ours.mr.SGE(100, n)}, theirs.mr.Address(), Token(theirs.mr.RemoteToken()), 0), StatusSuccess)
	ours.wantResult(t, 5, OperationRead, StatusSuccess)
	ours.a.verbs.Stats()
	if got := string(ours.mr.Bytes()[100:][:n]); got != "from nd to ndk and back" {
		t.Errorf("read %q", got)
	}
}

// An nd listener accepts a connection of an ndk connector, and the reverse, with AF_XDP on one side and plain sockets on the other.
func TestSurfacesInteroperate(t *testing.T) {
	for _, c := range []struct {
		nd  nd.Datapath
		ndk string
	}{{nd.DatapathUDP, "generic"}, {nd.DatapathGeneric, "udp"}, {nd.DatapathAuto, "auto"}} {
		t.Run(c.nd.String()+" and "+c.ndk, func(t *testing.T) {
			a, b, addr := overVeth(t, c.nd, c.ndk)
			t.Run("nd listens", func(t *testing.T) {
				theirs, ours := newNDEnd(t, a), newEnd(t, b, 4096)
				l, err := a.CreateListener()
				must(t, err)
				defer l.Close()
				must(t, l.Bind(netip.AddrPortFrom(addr[0], 7000)))
				must(t, l.Listen(0))
				connect := ours.dial(t, netip.AddrPortFrom(addr[0], 7000))
				must(t, l.GetConnectionRequest(t.Context(), theirs.ctr))
				accepted := make(chan error, 1)
				go func() { accepted <- theirs.ctr.Accept(t.Context(), theirs.qp, nd.ConnectParams{InboundReadLimit: 4}) }()
				want(t, "connect", connect.finish(t), StatusSuccess)
				want(t, "complete connect", ours.complete(t).finish(t), StatusSuccess)
				must(t, receive(t, "accept", accepted))
				swap(t, theirs, ours)
				must(t, theirs.ctr.Close())
				receive(t, "disconnect event", ours.gone)
			})
			t.Run("ndk listens", func(t *testing.T) {
				theirs, ours := newNDEnd(t, a), newEnd(t, b, 4096)
				_, at, requests := listens(t, b)
				connected := make(chan error, 1)
				go func() {
					connected <- theirs.ctr.Connect(t.Context(), theirs.qp, at, nd.ConnectParams{InboundReadLimit: 4, PrivateData: []byte("nd")})
				}()
				ours.ctr = receive(t, "connect event", requests)
				defer func() {
					closed(t, ours.ctr.Close)
					ours.ctr = nil
				}()
				var buf [8]byte
				if _, out, n, s := ours.ctr.ConnectionData(buf[:]); s != StatusSuccess || string(buf[:n]) != "nd" || out != 4 {
					t.Errorf("%q, outbound %d, %s", buf[:n], out, s.Name())
				}
				accept := ours.accept(t)
				must(t, receive(t, "connect", connected))
				must(t, theirs.ctr.CompleteConnect(t.Context()))
				want(t, "accept", accept.finish(t), StatusSuccess)
				swap(t, theirs, ours)
				must(t, theirs.qp.Close())
				receive(t, "disconnect event", ours.gone)
			})
		})
	}
}
