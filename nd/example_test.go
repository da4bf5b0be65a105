package nd_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd"
)

// A client that writes into the memory a server granted it.
func Example() {
	ctx := context.Background()
	if err := client(ctx, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddrPort("10.0.0.2:7000")); err != nil {
		fmt.Println(err)
	}
}

func client(ctx context.Context, local netip.Addr, server netip.AddrPort) error {
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: local})
	if err != nil {
		return err
	}
	defer adapter.Close()
	cq, err1 := adapter.CreateCompletionQueue(64)
	qp, err2 := adapter.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 16, InitiatorDepth: 16})
	mr, err3 := adapter.AllocateMemory(1<<20, nd.MRAllowLocalWrite)
	conn, err4 := adapter.CreateConnector()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	defer conn.Close()
	// The most Reads that may be outstanding at once: ours at the peer, and the peer's here. Zero refuses them.
	limits := nd.ConnectParams{OutboundReadLimit: 8, InboundReadLimit: 8}
	if err := conn.Connect(ctx, qp, server, limits); err != nil {
		return err // errors.Is(err, nd.ErrConnectionRefused), …
	}
	if err := conn.CompleteConnect(ctx); err != nil {
		return err
	}
	granted, err := conn.PrivateData() // the server sent address and token of its memory there
	if err != nil {
		return err
	}
	addr, token := binary.BigEndian.Uint64(granted), nd.Token(binary.BigEndian.Uint32(granted[8:]))

	copy(mr.Bytes(), "hello")
	if err := qp.Write(1, []nd.SGE{mr.SGE(0, 5)}, addr, token, 0); err != nil {
		return err
	}
	var results [16]nd.Result
	for cq.GetResults(results[:]) == 0 { // poll for the lowest latency …
		if err := cq.Notify(ctx, nd.NotifyAny); err != nil { // … or sleep
			return err
		}
	}
	if results[0].Status != nd.StatusSuccess {
		return results[0].Status
	}
	return conn.Disconnect(ctx)
}

// ExampleListener is the server of the package example: it grants each client a megabyte to write to, and ends when the client
// disconnects.
func ExampleListener() {
	if err := serve(context.Background(), netip.MustParseAddrPort("10.0.0.2:7000")); err != nil {
		fmt.Println(err)
	}
}

func serve(ctx context.Context, at netip.AddrPort) error {
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: at.Addr()})
	if err != nil {
		return err
	}
	defer adapter.Close()
	listener, err := adapter.CreateListener()
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := errors.Join(listener.Bind(at), listener.Listen(0)); err != nil {
		return err
	}
	cq, err1 := adapter.CreateCompletionQueue(64)
	qp, err2 := adapter.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq})
	mr, err3 := adapter.AllocateMemory(1<<20, nd.MRAllowRemoteWrite)
	conn, err4 := adapter.CreateConnector()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	defer conn.Close()
	if err := listener.GetConnectionRequest(ctx, conn); err != nil {
		return err
	}
	grant := binary.BigEndian.AppendUint64(nil, mr.Address())
	grant = binary.BigEndian.AppendUint32(grant, uint32(mr.RemoteToken()))
	if err := conn.Accept(ctx, qp, nd.ConnectParams{PrivateData: grant}); err != nil {
		return err
	}
	if err := conn.NotifyDisconnect(ctx); err != nil {
		return err
	}
	fmt.Printf("%s\n", mr.Bytes()[:5])
	return conn.Disconnect(ctx)
}
