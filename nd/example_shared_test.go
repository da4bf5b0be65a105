package nd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// A server that receives from any number of clients with a few buffers, so that its memory does not depend on the number of
// connections. It runs over loopback, which needs no privilege.
func ExampleSharedReceiveQueue() {
	const clients = 3
	ctx := context.Background()
	port, err := freePort()
	if err != nil {
		fmt.Println(err)
		return
	}
	ready, ended := make(chan error, 1), make(chan error, 1)
	go func() { ended <- sharedServer(ctx, port, clients, ready) }()
	if err := <-ready; err != nil {
		fmt.Println(err)
		return
	}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			if err := sharedClient(ctx, port, i); err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// connection 0: hello
	// connection 1: hello
	// connection 2: hello
}

const bufferSize = 4096

func sharedServer(ctx context.Context, port uint16, clients int, ready chan<- error) error {
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr("127.0.0.2"), UDPPort: port, Datapath: nd.DatapathUDP})
	if err != nil {
		ready <- err
		return err
	}
	defer adapter.Close()
	const buffers = 2 // fewer than clients: a message without a free buffer waits
	pool, err1 := adapter.CreateSharedReceiveQueue(buffers, 1, 0)
	mr, err2 := adapter.AllocateMemory(buffers*bufferSize, nd.MRAllowLocalWrite)
	cq, err3 := adapter.CreateCompletionQueue(64)
	listener, err4 := adapter.CreateListener()
	if err := errors.Join(err1, err2, err3, err4, listener.Bind(netip.MustParseAddrPort("127.0.0.2:7000")), listener.Listen(0)); err != nil {
		ready <- err
		return err
	}
	for b := range uint64(buffers) {
		if err := pool.Receive(b, []nd.SGE{mr.SGE(int(b)*bufferSize, bufferSize)}); err != nil {
			return err
		}
	}
	ready <- nil
	conns := make([]*nd.Connector, clients)
	for i := range conns {
		conn, err1 := adapter.CreateConnector()
		qp, err2 := adapter.CreateQueuePairWithSRQ(pool, nd.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ID: uint64(i)})
		conns[i] = conn
		if err := errors.Join(err1, err2, listener.GetConnectionRequest(ctx, conn), conn.Accept(ctx, qp, nd.ConnectParams{})); err != nil {
			return err
		}
	}
	if err := answer(ctx, cq, pool, mr, clients); err != nil {
		return err
	}
	for _, conn := range conns {
		if err := errors.Join(conn.NotifyDisconnect(ctx), conn.Disconnect(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// answer prints messages, and posts each buffer again.
func answer(ctx context.Context, cq *nd.CompletionQueue, pool *nd.SharedReceiveQueue, mr *nd.MemoryRegion, messages int) error {
	var results [8]nd.Result
	for heard := 0; heard < messages; {
		n := cq.GetResults(results[:])
		for _, r := range results[:n] {
			buffer := mr.SGE(int(r.RequestID)*bufferSize, bufferSize)
			fmt.Printf("connection %d: %s\n", r.QueuePairID, buffer.Buffer[:r.Bytes])
			heard++
			if err := pool.Receive(r.RequestID, []nd.SGE{buffer}); err != nil {
				return err
			}
		}
		if n == 0 {
			if err := cq.Notify(ctx, nd.NotifyAny); err != nil {
				return err
			}
		}
	}
	return nil
}

func sharedClient(ctx context.Context, port uint16, i int) error {
	p, err := newParty(fmt.Sprintf("127.0.0.%d", 3+i), port)
	if err != nil {
		return err
	}
	defer p.adapter.Close()
	if err := p.conn.Connect(ctx, p.qp, netip.MustParseAddrPort("127.0.0.2:7000"), nd.ConnectParams{}); err != nil {
		return err
	}
	if err := p.conn.CompleteConnect(ctx); err != nil {
		return err
	}
	copy(p.mr.Bytes(), "hello")
	if err := p.qp.Send(1, []nd.SGE{p.mr.SGE(0, 5)}, 0); err != nil {
		return err
	}
	if res, err := p.next(ctx); err != nil || res[0].Status != nd.StatusSuccess {
		return errors.Join(err, res[0].Status)
	}
	return p.conn.Disconnect(ctx)
}

// freePort returns a UDP port that no other adapter of this machine uses.
func freePort() (uint16, error) {
	return netlabtest.Port()
}
