package nd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// serveUntilKilled is a peer of its own process: it grants a megabyte, says that it is ready, and sleeps.
func serveUntilKilled() {
	if err := serveOne(netip.MustParseAddr(os.Getenv(childAddr))); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

func serveOne(addr netip.Addr) error {
	a, err := OpenAdapter(AdapterConfig{Address: addr})
	if err != nil {
		return err
	}
	cq, err1 := a.CreateCompletionQueue(64)
	qp, err2 := a.CreateQueuePair(QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 64})
	mr, err3 := a.AllocateMemory(1<<20, MRAllowRemoteRead|MRAllowRemoteWrite)
	c, err4 := a.CreateConnector()
	l, err5 := a.CreateListener()
	if err := errors.Join(err1, err2, err3, err4, err5, l.Bind(netip.AddrPortFrom(addr, 7000)), l.Listen(0)); err != nil {
		return err
	}
	fmt.Println("ready")
	ctx := context.Background()
	if err := l.GetConnectionRequest(ctx, c); err != nil {
		return err
	}
	grant := binary.BigEndian.AppendUint64(nil, mr.Address())
	grant = binary.BigEndian.AppendUint32(grant, uint32(mr.RemoteToken()))
	return c.Accept(ctx, qp, ConnectParams{PrivateData: grant, InboundReadLimit: 8, OutboundReadLimit: 8})
}

// deadPeer bounds how long it takes to notice: 5 s without progress, and what the timers' doubling adds.
const deadPeer = 9 * time.Second

// fill keeps the client's queue full of Writes and Reads of a megabyte until stop says so, and returns how many wait then.
func fill(t *testing.T, client *end, addr uint64, token Token, stop func(done int) bool) (waiting int) {
	t.Helper()
	var res [16]Result
	for done := 0; !stop(done); {
		for waiting < 16 {
			var err error
			if waiting%2 == 0 {
				err = client.qp.Write(uint64(done), []SGE{client.mr.SGE(0, 1<<20)}, addr, token, 0)
			} else {
				err = client.qp.Read(uint64(done), []SGE{client.mr.SGE(0, 1<<20)}, addr, token, 0)
			}
			must(t, err)
			waiting++
		}
		for _, r := range res[:client.cq.GetResults(res[:])] {
			if r.Status != StatusSuccess {
				t.Fatalf("before the peer died: %+v", r)
			}
			waiting--
			done++
		}
	}
	return waiting
}

// wantDeath checks that everything outstanding ends, the oldest request with a time-out and the others canceled.
func wantDeath(t *testing.T, client *end, notified <-chan error, waiting int) {
	t.Helper()
	began := time.Now()
	for first := true; waiting > 0; {
		r := client.result(t)
		if r.Status == StatusSuccess && first { // arrived before the peer died
			waiting--
			continue
		}
		want := ErrCanceled
		if first {
			want, first = ErrIOTimeout, false
		}
		if r.Status != want {
			t.Errorf("%+v: %s, want %s", r, r.Status.Name(), want.Name())
		}
		waiting--
	}
	if took := time.Since(began); took > deadPeer {
		t.Errorf("it took %v, want at most %v", took, deadPeer)
	}
	wantStatus(t, "notify disconnect", finish(t, "notify disconnect", notified), StatusSuccess)
	if s := client.ctr.state(); s != provider.CtrLost {
		t.Errorf("connector %v", s)
	}
	wantStatus(t, "disconnect", client.ctr.Disconnect(t.Context()), ErrConnectionInvalid)
}

func TestPeerProcessKilled(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr()})
	cmd := child("serve", childAddr+"="+pair.AddrB.Addr().String())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, pair.B.StartProcess(cmd))
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it is dead already, unless the test failed early
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the peer says %q, %v", line, err)
	}
	client := newEnd(t, a, 1<<20)
	must(t, client.ctr.Connect(t.Context(), client.qp, netip.AddrPortFrom(pair.AddrB.Addr(), 7000), helloParams))
	must(t, client.ctr.CompleteConnect(t.Context()))
	grant, err := client.ctr.PrivateData()
	must(t, err)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	addr, token := binary.BigEndian.Uint64(grant), Token(binary.BigEndian.Uint32(grant[8:]))
	waiting := fill(t, client, addr, token, func(done int) bool { return done > 20 })
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the peer ended well")
	}
	wantDeath(t, client, notified, waiting)
}

// Only Reads are outstanding, and the peer has acknowledged them: nothing is repeated that would show that it is gone.
func TestReadsEndWhenThePeerIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, server := r.connect(t, 1<<20)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	must(t, client.qp.Write(1, nil, 0, 0, 0))
	client.wantResult(t, 1, RequestWrite, StatusSuccess)
	const reads = 8
	for i := range uint64(reads) {
		must(t, client.qp.Read(i, []SGE{client.mr.SGE(0, 1<<20)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	}
	r.setLink(t, r.pair.B, false)
	wantDeath(t, client, notified, reads)
}

func TestLinkGoesDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, server := r.connect(t, 1<<20)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	waiting := fill(t, client, server.mr.Address(), server.mr.RemoteToken(), func(done int) bool { return done > 20 })
	r.setLink(t, r.pair.B, false)
	wantDeath(t, client, notified, waiting)
	// The link comes back, and so do connections.
	r.setLink(t, r.pair.B, true)
	again, peer := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
	r.join(t, again, peer)
}

// The peer's adapter closes in the middle of a transfer: it says so, and nobody waits for a time-out.
func TestPeerAdapterCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, server := r.connect(t, 1<<20)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	waiting := fill(t, client, server.mr.Address(), server.mr.RemoteToken(), func(done int) bool { return done > 20 })
	began := time.Now()
	must(t, r.b.Close())
	for range waiting {
		if res := client.result(t); res.Status != ErrCanceled && res.Status != StatusSuccess {
			t.Errorf("%+v: %s", res, res.Status.Name())
		}
	}
	must(t, finish(t, "notify disconnect", notified))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
