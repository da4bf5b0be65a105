package nd_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd"
)

// party is one side of the example below: an adapter on a loopback address, which needs no privilege, and the objects of a
// connection.
type party struct {
	adapter *nd.Adapter
	cq      *nd.CompletionQueue
	qp      *nd.QueuePair
	mr      *nd.MemoryRegion
	conn    *nd.Connector
}

func newParty(addr string, udpPort uint16) (p party, err error) {
	p.adapter, err = nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(addr), UDPPort: udpPort, Datapath: nd.DatapathUDP})
	if err != nil {
		return p, err
	}
	var errs [4]error
	p.cq, errs[0] = p.adapter.CreateCompletionQueue(64)
	p.qp, errs[1] = p.adapter.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: p.cq, InitiatorCQ: p.cq, ReceiveDepth: 16, InitiatorDepth: 16})
	p.mr, errs[2] = p.adapter.RegisterMemory(make([]byte, 4096), nd.MRAllowLocalWrite) // without remote rights
	p.conn, errs[3] = p.adapter.CreateConnector()
	return p, errors.Join(errs[:]...)
}

// meet connects a to b.
func meet(ctx context.Context, a, b party) error {
	listener, err := b.adapter.CreateListener()
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := errors.Join(listener.Bind(netip.MustParseAddrPort("127.0.0.2:7000")), listener.Listen(0)); err != nil {
		return err
	}
	accepted := make(chan error, 1)
	go func() {
		err := listener.GetConnectionRequest(ctx, b.conn)
		if err == nil {
			err = b.conn.Accept(ctx, b.qp, nd.ConnectParams{})
		}
		accepted <- err
	}()
	if err := a.conn.Connect(ctx, a.qp, netip.MustParseAddrPort("127.0.0.2:7000"), nd.ConnectParams{}); err != nil {
		return err
	}
	return errors.Join(a.conn.CompleteConnect(ctx), <-accepted)
}

// next waits for a party's next result.
func (p party) next(ctx context.Context) (res [1]nd.Result, err error) {
	for err == nil && p.cq.GetResults(res[:]) == 0 {
		err = p.cq.Notify(ctx, nd.NotifyAny)
	}
	return res, err
}

// A server lets its client write into 64 bytes of its memory, and revokes the permission afterwards.
func ExampleMemoryWindow() {
	if err := grantAndRevoke(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// server: bind, success (ND_SUCCESS)
	// client: write, success (ND_SUCCESS)
	// server: invalidate, success (ND_SUCCESS)
	// client: write, memory access refused: token, range or right (ND_ACCESS_VIOLATION)
}

func grantAndRevoke(ctx context.Context) error {
	port, err0 := freePort()
	server, err1 := newParty("127.0.0.2", port)
	client, err2 := newParty("127.0.0.1", port)
	if err := errors.Join(err0, err1, err2); err != nil {
		return err
	}
	defer server.adapter.Close()
	defer client.adapter.Close()
	if err := meet(ctx, client, server); err != nil {
		return err
	}
	window, err := server.adapter.CreateMemoryWindow()
	if err != nil {
		return err
	}
	tell := func(who string, p party, posted error) error {
		res, err := p.next(ctx)
		if err := errors.Join(posted, err); err != nil {
			return err
		}
		fmt.Printf("%s: %v, %v\n", who, res[0].Type, res[0].Status)
		return nil
	}
	lent := server.mr.Bytes()[128:192]
	if err := tell("server", server, server.qp.Bind(1, server.mr, window, lent, nd.OpAllowWrite)); err != nil {
		return err
	}
	// A server in another process would send address and token to its client. The Send may be posted right behind the Bind.
	grant := binary.BigEndian.AppendUint64(nil, server.mr.Address()+128)
	grant = binary.BigEndian.AppendUint32(grant, uint32(window.RemoteToken()))
	addr, token := binary.BigEndian.Uint64(grant), nd.Token(binary.BigEndian.Uint32(grant[8:]))
	write := func() error { return client.qp.Write(2, []nd.SGE{client.mr.SGE(0, 64)}, addr, token, 0) }
	return errors.Join(
		tell("client", client, write()),
		tell("server", server, server.qp.Invalidate(3, window, 0)),
		tell("client", client, write()), // an access after the invalidation ends the connection
	)
}
