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

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// serveUntilKilled is a peer in a process of its own: it grants a megabyte, reports that it is ready, and sleeps.
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

// fill keeps the client's queue full of Writes and Reads of a megabyte until enough are done. It returns how many are outstanding
// then.
func fill(t *testing.T, client *end, addr uint64, token Token) (waiting int) {
	t.Helper()
	const enough = 20
	sink := []SGE{client.mr.SGE(0, 1<<20)}
	for done := 0; done <= enough; done++ {
		for ; waiting < 16; waiting++ {
			if waiting%2 == 0 {
				must(t, client.qp.Write(uint64(done), sink, addr, token, 0))
			} else {
				must(t, client.qp.Read(uint64(done), sink, addr, token, 0))
			}
		}
		if r := client.result(t); r.Status != StatusSuccess {
			t.Fatalf("before the peer died: %+v", r)
		}
		waiting--
	}
	return waiting
}

// wantEnd polls the results after the end of a peer: first those of requests that succeeded, then one with this status, then only
// canceled ones.
func wantEnd(t *testing.T, client *end, waiting int, want Status) {
	t.Helper()
	ended := false
	for range waiting {
		r := client.result(t)
		if r.Status == StatusSuccess && !ended {
			continue
		}
		if r.Status != want {
			t.Errorf("%+v: %s, want %s", r, r.Status.Name(), want.Name())
		}
		ended, want = true, ErrCanceled
	}
	if !ended {
		t.Errorf("all of %d requests succeeded, want one to end %s", waiting, want.Name())
	}
}

// wantDeath checks the end of a silent peer: the oldest outstanding request ends with the status, and the others are canceled. The
// engine's tests check on virtual time how long that takes.
func wantDeath(t *testing.T, client *end, notified <-chan error, waiting int, first Status) {
	t.Helper()
	wantEnd(t, client, waiting, first)
	wantStatus(t, "notify disconnect", finish(t, "notify disconnect", notified), StatusSuccess)
	if s := client.ctr.state(); s != provider.CtrLost {
		t.Errorf("connector %v", s)
	}
	wantStatus(t, "disconnect", client.ctr.Disconnect(t.Context()), ErrConnectionInvalid)
}

// afterwards posts a request that cannot succeed, because the peer is gone. All earlier requests may have succeeded.
func afterwards(t *testing.T, client *end, addr uint64, token Token) {
	t.Helper()
	must(t, client.qp.Write(99, []SGE{client.mr.SGE(0, 1)}, addr, token, 0))
}

// If a peer's process is killed, its kernel reports by ICMP that the UDP port is closed: requests are canceled without a time-out.
func TestPeerProcessKilled(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr()})
	cmd := child("serve", childAddr+"="+pair.AddrB.Addr().String())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, pair.B.StartProcess(cmd))
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // the process is dead already, unless the test failed early
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
	waiting := fill(t, client, addr, token)
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the peer ended well")
	}
	afterwards(t, client, addr, token)
	wantDeath(t, client, notified, waiting+1, ErrCanceled)
}

// Only Reads are outstanding, and the peer has acknowledged them, so no retransmission shows that the peer is gone. There are more
// Reads than arrive while the link goes down.
func TestReadsEndWhenThePeerIsGone(t *testing.T) {
	t.Parallel()
	r := newImpatientRig(t)
	client, server := r.connect(t, 1<<20)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	must(t, client.qp.Write(1, nil, 0, 0, 0))
	client.wantResult(t, 1, RequestWrite, StatusSuccess)
	const reads = 128
	for i := range uint64(reads) {
		must(t, client.qp.Read(i, []SGE{client.mr.SGE(0, 1<<20)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	}
	r.setLink(t, r.pair.B, false)
	wantDeath(t, client, notified, reads, ErrIOTimeout)
}

func TestLinkGoesDown(t *testing.T) {
	t.Parallel()
	r := newImpatientRig(t)
	client, server := r.connect(t, 1<<20)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	waiting := fill(t, client, server.mr.Address(), server.mr.RemoteToken())
	r.setLink(t, r.pair.B, false)
	afterwards(t, client, server.mr.Address(), server.mr.RemoteToken())
	wantDeath(t, client, notified, waiting+1, ErrIOTimeout)
	// The link comes back, and new connections work.
	r.setLink(t, r.pair.B, true)
	must(t, r.pair.AwaitCarrier())
	again, peer := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
	r.join(t, again, peer)
}

// If the peer's adapter closes during a transfer, it sends a notice, and no time-out is needed.
func TestPeerAdapterCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, server := r.connect(t, 1<<20)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	waiting := fill(t, client, server.mr.Address(), server.mr.RemoteToken())
	must(t, r.b.Close())
	afterwards(t, client, server.mr.Address(), server.mr.RemoteToken())
	wantEnd(t, client, waiting+1, ErrCanceled)
	must(t, finish(t, "notify disconnect", notified))
}
