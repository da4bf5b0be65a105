package nd

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// repeat is a list with n copies of an entry.
func repeat(e SGE, n int) []SGE {
	list := make([]SGE, n)
	for i := range list {
		list[i] = e
	}
	return list
}

// postEnd is newEnd with the limits of the tests below: 4 deep, 6 entries to send and 5 to receive, 32 bytes inline.
func postEnd(t *testing.T, a *Adapter) *end {
	t.Helper()
	e := newEnd(t, a, 4096)
	var err error
	e.qp, err = a.CreateQueuePair(QueuePairConfig{
		ReceiveCQ: e.cq, InitiatorCQ: e.cq, ID: 77, ReceiveDepth: 4, InitiatorDepth: 4, MaxReceiveSGE: 5, MaxInitiatorSGE: 6, InlineSize: 32,
	})
	must(t, err)
	return e
}

func TestPostRefused(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := postEnd(t, r.a), postEnd(t, r.b)
	r.join(t, client, server)
	one := client.mr.SGE(0, 8)
	big, err := r.a.RegisterMemory(make([]byte, 1<<20), MRAllowLocalWrite)
	must(t, err)
	addr, token := server.mr.Address(), server.mr.RemoteToken()
	send := func(list []SGE, flags OpFlags) error { return client.qp.Send(1, list, flags) }
	write := func(list []SGE, flags OpFlags) error { return client.qp.Write(1, list, addr, token, flags) }
	read := func(list []SGE, flags OpFlags) error { return client.qp.Read(1, list, addr, token, flags) }
	receive := func(list []SGE, _ OpFlags) error { return client.qp.Receive(1, list) }
	for _, c := range []struct {
		name  string
		post  func([]SGE, OpFlags) error
		list  []SGE
		flags OpFlags
		want  Status
	}{
		{"send, unknown flag", send, nil, 0x40, ErrInvalidParameterN(4)},
		{"send, flag of bind", send, nil, 0x8, ErrInvalidParameterN(4)},
		{"write, solicited", write, nil, OpSolicit, ErrInvalidParameterN(6)},
		{"read, inline", read, nil, OpInline, ErrInvalidParameterN(6)},
		{"read, solicited", read, nil, OpSolicit, ErrInvalidParameterN(6)},
		{"send, entries", send, repeat(one, 7), 0, ErrDataOverrun},
		{"write, entries", write, repeat(one, 17), 0, ErrDataOverrun},
		{"read, entries", read, repeat(one, 7), 0, ErrDataOverrun},
		{"receive, entries", receive, repeat(one, 6), 0, ErrDataOverrun},
		{"send, inline too long", send, repeat(one, 5), OpInline, ErrBufferOverflow},
		{"write, inline far too long", write, []SGE{big.SGE(0, 1<<20)}, OpInline, ErrBufferOverflow},
	} {
		wantStatus(t, c.name, c.post(c.list, c.flags), c.want)
	}
	client.wantNoResult(t)
	must(t, client.qp.Receive(1, repeat(one, 5)))
	must(t, client.qp.Write(2, repeat(one, 6), addr, token, 0))
	if res := client.wantResult(t, 2, RequestWrite, StatusSuccess); res.QueuePairID != 77 {
		t.Errorf("queue pair context %d", res.QueuePairID)
	}
}

func TestPostTooLong(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	e := newEnd(t, r.a, 64)
	q, err := r.a.CreateQueuePair(QueuePairConfig{
		ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: 1, InitiatorDepth: 1, MaxReceiveSGE: 16, MaxInitiatorSGE: 16,
	})
	must(t, err)
	server := newEnd(t, r.b, 64)
	e.qp = q
	r.join(t, e, server)
	big, err := r.a.RegisterMemory(make([]byte, 64<<20+1), 0)
	must(t, err)
	list := repeat(big.SGE(0, 64<<20+1), 16)
	wantStatus(t, "send", q.Send(1, list, 0), ErrBufferOverflow)
	wantStatus(t, "write", q.Write(1, list, 0, 0, 0), ErrBufferOverflow)
	wantStatus(t, "read", q.Read(1, list, 0, 0, 0), ErrBufferOverflow)
	wantStatus(t, "receive", q.Receive(1, list), ErrBufferOverflow)
}

// If a list has too many entries for its queue and too many bytes for any request, the error is about the entries, because they are
// counted first (11.1).
func TestEntriesAreCountedBeforeBytes(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := postEnd(t, r.a), postEnd(t, r.b)
	r.join(t, client, server)
	s, err := r.a.CreateSharedReceiveQueue(1, 5, 0)
	must(t, err)
	big, err := r.a.RegisterMemory(make([]byte, 256<<20), 0)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(s.Close(), big.Close())) })
	for _, c := range []struct {
		entries int
		want    Status
	}{{5, ErrBufferOverflow}, {7, ErrDataOverrun}, {16, ErrDataOverrun}, {17, ErrDataOverrun}} {
		list := repeat(big.SGE(0, 256<<20), c.entries)
		wantStatus(t, "send", client.qp.Send(1, list, 0), c.want)
		wantStatus(t, "write", client.qp.Write(1, list, 0, 0, 0), c.want)
		wantStatus(t, "read", client.qp.Read(1, list, 0, 0, 0), c.want)
		wantStatus(t, "receive", client.qp.Receive(1, list), c.want)
		wantStatus(t, "shared receive", s.Receive(1, list), c.want)
	}
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := postEnd(t, r.a), postEnd(t, r.b)
	for i := range 4 {
		must(t, server.qp.Receive(uint64(i), []SGE{server.mr.SGE(0, 8)}))
	}
	wantStatus(t, "receive", server.qp.Receive(4, nil), ErrNoMoreEntries)
	server.qp.Flush() // Q06: the queue is empty and usable again
	for i := range 4 {
		server.wantResult(t, uint64(i), RequestReceive, ErrCanceled)
	}
	r.join(t, client, server)
	for i := range 4 { // blocked: the peer has posted no receive
		must(t, client.qp.Send(uint64(i), []SGE{client.mr.SGE(0, 8)}, 0))
	}
	wantStatus(t, "send", client.qp.Send(4, nil, 0), ErrNoMoreEntries)
	wantStatus(t, "write", client.qp.Write(4, nil, 0, 0, 0), ErrNoMoreEntries)
	for i := range 4 {
		must(t, server.qp.Receive(uint64(i), []SGE{server.mr.SGE(0, 8)}))
	}
	for i := range 4 {
		client.wantResult(t, uint64(i), RequestSend, StatusSuccess)
	}
	must(t, client.qp.Write(5, nil, 0, 0, 0))
	client.wantResult(t, 5, RequestWrite, StatusSuccess)
}

// A post checks flags first, then the state, then everything else (11.1).
func TestPostInEachState(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	tooMany := repeat(client.mr.SGE(0, 8), 17)
	refused := func(when string) {
		t.Helper()
		wantStatus(t, when+": send", client.qp.Send(1, nil, 0), ErrConnectionInvalid)
		wantStatus(t, when+": write", client.qp.Write(1, nil, 0, 0, OpInline), ErrConnectionInvalid)
		wantStatus(t, when+": read", client.qp.Read(1, nil, 0, 0, 0), ErrConnectionInvalid)
		wantStatus(t, when+": entries", client.qp.Send(1, tooMany, 0), ErrConnectionInvalid)
		wantStatus(t, when+": inline", client.qp.Send(1, tooMany[:16], OpInline), ErrConnectionInvalid)
		wantStatus(t, when+": flags", client.qp.Send(1, nil, 0x40), ErrInvalidParameterN(4))
	}
	receive := func(context uint64) {
		t.Helper()
		must(t, client.qp.Receive(context, []SGE{client.mr.SGE(0, 8)}))
	}
	refused("idle")
	receive(10)
	connected := r.pendingConnect(t, client, server)
	refused("connecting")
	receive(11)
	accepted := start(func() error { return server.ctr.Accept(t.Context(), server.qp, helloParams) })
	must(t, finish(t, "connect", connected))
	refused("accepted")
	must(t, client.ctr.CompleteConnect(t.Context()))
	must(t, finish(t, "accept", accepted))
	must(t, server.qp.Send(1, []SGE{server.mr.SGE(0, 8)}, 0))
	must(t, server.qp.Send(2, nil, 0))
	client.wantResult(t, 10, RequestReceive, StatusSuccess)
	client.wantResult(t, 11, RequestReceive, StatusSuccess)
	receive(12)
	disconnectBoth(t, client, server)
	client.wantResult(t, 12, RequestReceive, ErrCanceled)
	refused("closed")
}

func TestInlineTakesTheBytesAtOnce(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	r.join(t, client, server)
	// Inline data may lie in unregistered memory, in more entries than any other request may have, and may change right after the
	// call.
	data := []byte("abcdefghijklmnopqrstuvwxyz")
	list := []SGE{}
	for i := range data {
		list = append(list, SGE{Buffer: data[i : i+1], Token: 12345})
	}
	must(t, client.qp.Write(1, list, server.mr.Address()+10, server.mr.RemoteToken(), OpInline))
	must(t, client.qp.Send(2, list, OpInline)) // waits for the receive
	clear(data)
	must(t, server.qp.Receive(3, []SGE{server.mr.SGE(100, 10), server.mr.SGE(200, 16)}))
	client.wantResult(t, 1, RequestWrite, StatusSuccess)
	client.wantResult(t, 2, RequestSend, StatusSuccess)
	if res := server.wantResult(t, 3, RequestReceive, StatusSuccess); res.Bytes != 26 {
		t.Errorf("%d bytes", res.Bytes)
	}
	r.b.sync()
	if got := server.mr.Bytes(); string(got[10:36]) != "abcdefghijklmnopqrstuvwxyz" || string(got[100:110])+string(got[200:216]) != "abcdefghijklmnopqrstuvwxyz" {
		t.Error("the bytes are not those of the time of the call")
	}
}

func TestSilentSuccess(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	must(t, server.qp.Receive(9, nil))
	addr, token := server.mr.Address(), server.mr.RemoteToken()
	must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 8)}, addr, token, OpSilentSuccess))
	must(t, client.qp.Read(2, []SGE{client.mr.SGE(0, 8)}, addr, token, OpSilentSuccess))
	must(t, client.qp.Send(3, nil, OpSilentSuccess))
	must(t, client.qp.Write(4, nil, 0, 0, 0))
	client.wantResult(t, 4, RequestWrite, StatusSuccess) // the requests before it have no result
	must(t, client.qp.Write(5, []SGE{client.mr.SGE(0, 8)}, addr, token+1, OpSilentSuccess))
	client.wantResult(t, 5, RequestWrite, ErrAccessViolation) // a failed request always has a result
	client.wantNoResult(t)
}

func TestZeroLength(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	empty := []SGE{{}, client.mr.SGE(5, 0), {Buffer: []byte{}, Token: 999}}
	for i, list := range [][]SGE{nil, empty} {
		at := uint64(10 * i)
		must(t, server.qp.Receive(at, nil))
		must(t, client.qp.Send(at+1, list, 0))
		must(t, client.qp.Write(at+2, list, 1, 2, 0))
		must(t, client.qp.Read(at+3, list, 3, 4, 0))
		client.wantResult(t, at+1, RequestSend, StatusSuccess)
		client.wantResult(t, at+2, RequestWrite, StatusSuccess)
		client.wantResult(t, at+3, RequestRead, StatusSuccess)
		if res := server.wantResult(t, at, RequestReceive, StatusSuccess); res.Bytes != 0 {
			t.Errorf("%d bytes", res.Bytes)
		}
	}
	// A receive without entries accepts only empty messages.
	must(t, server.qp.Receive(1, nil))
	must(t, client.qp.Send(2, []SGE{client.mr.SGE(0, 1)}, 0))
	server.wantResult(t, 1, RequestReceive, ErrBufferOverflow)
	client.wantResult(t, 2, RequestSend, ErrRemoteError)
}

func TestSendLongerThanTheReceive(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, size := range []int{65, 5000} {
		client, server := r.connect(t, 8192)
		before := bytes.Clone(server.mr.Bytes())
		must(t, server.qp.Receive(1, []SGE{server.mr.SGE(100, 64)}))
		must(t, server.qp.Receive(2, []SGE{server.mr.SGE(100, 64)}))
		for i := range client.mr.Bytes() {
			client.mr.Bytes()[i] = 0xee
		}
		must(t, client.qp.Send(3, []SGE{client.mr.SGE(0, size)}, 0))
		server.wantResult(t, 1, RequestReceive, ErrBufferOverflow)
		server.wantResult(t, 2, RequestReceive, ErrCanceled)
		client.wantResult(t, 3, RequestSend, ErrRemoteError)
		r.b.sync()
		if !bytes.Equal(server.mr.Bytes(), before) {
			t.Error("memory was written")
		}
		must(t, server.ctr.NotifyDisconnect(t.Context()))
		must(t, client.ctr.NotifyDisconnect(t.Context()))
	}
}

func TestSendWithoutReceiveTimesOut(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	began := time.Now()
	must(t, client.qp.Write(1, nil, 0, 0, 0))
	must(t, client.qp.Send(2, []SGE{client.mr.SGE(0, 8)}, 0))
	must(t, client.qp.Write(3, nil, 0, 0, 0))
	client.wantResult(t, 1, RequestWrite, StatusSuccess)
	client.wantResult(t, 2, RequestSend, ErrIOTimeout)
	client.wantResult(t, 3, RequestWrite, ErrCanceled)
	if took := time.Since(began); took < 1500*time.Millisecond || took > patience/2 {
		t.Errorf("it took %v, want about 2 s", took)
	}
	must(t, server.ctr.NotifyDisconnect(t.Context()))
	waitState(t, server.ctr, provider.CtrLost)
	must(t, server.qp.Receive(4, []SGE{server.mr.SGE(0, 8)}))
	server.wantResult(t, 4, RequestReceive, ErrCanceled)
	server.wantNoResult(t)
}

func TestFlushReady(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	for i := range 3 {
		must(t, client.qp.Receive(uint64(i), []SGE{client.mr.SGE(0, 8)}))
		must(t, client.qp.Send(uint64(10+i), nil, 0)) // waits for a receive
	}
	client.qp.Flush()
	// When Flush returns, all results are there, and each queue is in order.
	var res [8]Result
	if n := client.cq.GetResults(res[:]); n != 6 {
		t.Fatalf("%d results, want 6", n)
	}
	next := map[RequestType]uint64{RequestReceive: 0, RequestSend: 10}
	for _, r := range res[:6] {
		if r.Status != ErrCanceled || r.RequestID != next[r.Type] {
			t.Errorf("%+v, want context %d, canceled", r, next[r.Type])
		}
		next[r.Type]++
	}
	client.qp.Flush()
	must(t, client.qp.Write(20, nil, 0, 0, 0)) // Q11
	client.wantResult(t, 20, RequestWrite, ErrCanceled)
	// The connection still exists and can end gracefully.
	disconnectBoth(t, client, server)
	client.wantNoResult(t)
}

// A message to a queue pair that was flushed ends the connection (8.5).
func TestSendToFlushedPeer(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	must(t, server.qp.Receive(1, nil))
	must(t, server.qp.Receive(5, nil))
	must(t, client.qp.Send(4, nil, 0))
	client.wantResult(t, 4, RequestSend, StatusSuccess) // the client knows of the other receive as well now
	server.wantResult(t, 1, RequestReceive, StatusSuccess)
	server.qp.Flush()
	server.wantResult(t, 5, RequestReceive, ErrCanceled)
	must(t, client.qp.Send(2, nil, 0))
	if res := client.result(t); res.Status != ErrCanceled && res.Status != ErrRemoteError {
		t.Errorf("send: %+v", res)
	}
	waitState(t, client.ctr, provider.CtrLost)
}
