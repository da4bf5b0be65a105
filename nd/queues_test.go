package nd

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

const testQueues = 4

func newQueuesRig(t *testing.T, dp Datapath) *rig {
	pair := netlabtest.Pair(t, netlab.PairConfig{Queues: testQueues})
	r := &rig{addr: [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}, pair: pair}
	r.a = openIn(t, pair.A, AdapterConfig{Address: r.addr[0], Datapath: dp})
	r.b = openIn(t, pair.B, AdapterConfig{Address: r.addr[1], Datapath: dp})
	for _, a := range []*Adapter{r.a, r.b} {
		if got := len(a.verbs.Shards); got != testQueues {
			t.Fatalf("%d engines for %d queues", got, testQueues)
		}
	}
	return r
}

// exchange performs Writes, Sends and Reads on the connection and checks every byte.
func exchange(t *testing.T, client, server *end, rounds int) {
	const size = 8 << 10
	for i := range rounds {
		for j := range client.mr.Bytes()[:size] {
			client.mr.Bytes()[j] = byte(i*31 + j*7)
		}
		must(t, server.qp.Receive(9, []SGE{server.mr.SGE(size, size)}))
		must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, size)}, server.mr.Address(), server.mr.RemoteToken(), OpSilentSuccess))
		must(t, client.qp.Send(2, []SGE{client.mr.SGE(0, size)}, 0))
		must(t, client.qp.Read(3, []SGE{client.mr.SGE(2*size, size)}, server.mr.Address(), server.mr.RemoteToken(), OpReadFence))
		for _, want := range []RequestType{RequestSend, RequestRead} {
			if res := client.result(t); res.Status != StatusSuccess || res.Type != want {
				t.Fatalf("round %d: %+v, want %v", i, res, want)
			}
		}
		if res := server.result(t); res.Status != StatusSuccess || res.Bytes != size {
			t.Fatalf("round %d: %+v", i, res)
		}
		for _, got := range [][]byte{server.mr.Bytes()[:size], server.mr.Bytes()[size : 2*size], client.mr.Bytes()[2*size:]} {
			if !bytes.Equal(got, client.mr.Bytes()[:size]) {
				t.Fatalf("round %d: bytes differ", i)
			}
		}
	}
}

// homes returns a bit mask of the engines that own the queue pairs.
func homes(ends []*end) (mask uint64) {
	for _, e := range ends {
		for i, shard := range e.qp.adapter.verbs.Shards {
			if e.qp.qp.Shard() == shard {
				mask |= 1 << i
			}
		}
	}
	return mask
}

// TestFourQueues opens adapters on interfaces with four queues. In native mode veth keeps the queue number, so connections settle
// on all queues and no packet is misrouted after a while. In generic mode packets of queue i arrive on queue i-1, so packets are
// misrouted and forwarded, and connections move after them. Meanwhile two goroutines lock all engines, as the close of a region
// does, and neither waits for ever (I2).
func TestFourQueues(t *testing.T) {
	for _, dp := range []Datapath{DatapathNative, DatapathGeneric} {
		t.Run(dp.String(), func(t *testing.T) {
			r := newQueuesRig(t, dp)
			const conns = 16
			var clients, servers []*end
			for range conns {
				client, server := r.connect(t, 24<<10)
				clients, servers = append(clients, client), append(servers, server)
			}
			run := func(rounds int) {
				var group sync.WaitGroup
				for i := range conns {
					group.Go(func() { exchange(t, clients[i], servers[i], rounds) })
				}
				for range 2 {
					group.Go(func() {
						for range rounds {
							r.a.verbs.DoAll(func() {})
						}
					})
				}
				group.Wait()
			}
			run(50)
			var astray uint64 // packets that arrived on the wrong queue, in the latest round
			for deadline := time.Now().Add(patience); ; {
				before := r.a.Stats()
				run(20)
				astray = r.a.Stats().Packets.Relayed - before.Packets.Relayed
				if astray == 0 || dp != DatapathNative || time.Now().After(deadline) {
					break
				}
			}
			a, b := r.a.Stats(), r.b.Stats()
			t.Logf("homes %04b and %04b, relayed %d and %d, moved %d and %d",
				homes(clients), homes(servers), a.Packets.Relayed, b.Packets.Relayed, a.Connections.Moved, b.Connections.Moved)
			if a.Packets.Relayed+b.Packets.Relayed == 0 || a.Connections.Moved == 0 {
				t.Error("nothing arrived on another queue: this test shows nothing")
			}
			if dp == DatapathNative {
				if homes(clients) != homes(servers) || bits.OnesCount64(homes(clients)) < 3 {
					t.Errorf("connections live on queues %04b and %04b, want nearly all, and the same", homes(clients), homes(servers))
				}
				if astray > 0 {
					t.Errorf("%d packets still arrived on the wrong queue, and connections do not stay", astray)
				}
			}
			for i := range conns {
				end := start(func() error { return servers[i].ctr.NotifyDisconnect(t.Context()) })
				done := start(func() error { return clients[i].ctr.Disconnect(t.Context()) })
				must(t, finish(t, "notify", end))
				must(t, servers[i].ctr.Disconnect(t.Context()))
				must(t, finish(t, "disconnect", done))
			}
		})
	}
}

// TestQueuesShareACompletionQueue posts on connections of different engines that share a completion queue.
func TestQueuesShareACompletionQueue(t *testing.T) {
	r := newQueuesRig(t, DatapathNative)
	const conns, writes = 12, 200
	shared, err := r.a.CreateCompletionQueue(conns * writes)
	must(t, err)
	mr, err := r.a.AllocateMemory(4096, MRAllowLocalWrite)
	must(t, err)
	target, err := r.b.AllocateMemory(4096, MRAllowRemoteWrite)
	must(t, err)
	qps := make([]*QueuePair, conns)
	for i := range qps {
		server := newEnd(t, r.b, 4096)
		qps[i], err = r.a.CreateQueuePair(QueuePairConfig{ReceiveCQ: shared, InitiatorCQ: shared, ID: uint64(i), InitiatorDepth: writes})
		must(t, err)
		client := &end{cq: shared, qp: qps[i]}
		client.ctr, err = r.a.CreateConnector()
		must(t, err)
		r.join(t, client, server)
	}
	var posters sync.WaitGroup
	for _, qp := range qps {
		posters.Go(func() {
			for i := range uint64(writes) {
				must(t, qp.Write(i, []SGE{mr.SGE(0, 64)}, target.Address(), target.RemoteToken(), 0))
			}
		})
	}
	next := make([]uint64, conns)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for got, results := 0, make([]Result, 64); got < conns*writes; {
		n := shared.GetResults(results)
		for _, res := range results[:n] {
			if res.Status != StatusSuccess || res.RequestID != next[res.QueuePairID] {
				t.Fatalf("%+v, want request %d", res, next[res.QueuePairID])
			}
			next[res.QueuePairID]++
		}
		if got += n; n == 0 {
			if err := shared.Notify(ctx, NotifyAny); err != nil {
				t.Fatalf("%v after %d results: %v", err, got, fmt.Sprint(next))
			}
		}
	}
	posters.Wait()
	must(t, shared.Resize(conns*writes*2))
}
