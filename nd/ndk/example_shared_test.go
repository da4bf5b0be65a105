package ndk_test

import (
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd/ndk"
)

// Connections to one server take their receives from one pool, which notifies the server when few are left.
func ExampleSRQ() {
	server := open("127.0.0.1", make([]byte, 4*64), ndk.MRAllowLocalWrite)
	defer server.close()
	low := make(chan ndk.Status, 1)
	pool, _ := server.pd.CreateSRQ(4, 1, 3, func(_ any, s ndk.Status) { low <- s }, nil, nil, nil)
	defer pool.Close(nil, nil)
	for i := range 4 {
		pool.Receive(uint64(i), []ndk.SGE{server.mr.SGE(64*i, 64)})
	}

	for i, addr := range []string{"127.0.0.2", "127.0.0.3"} {
		qp, _ := server.pd.CreateQPWithSRQ(pool, ndk.QPConfig{
			ReceiveCQ: server.cq, InitiatorCQ: server.cq, ID: uint64(i), InitiatorDepth: 4,
		}, nil, nil)
		defer qp.Close(nil, nil)
		client := open(addr, fmt.Appendf(nil, "this is %s", addr), 0)
		defer client.close()
		connect(client, server, qp)
		client.qp.Send(1, []ndk.SGE{client.mr.SGE(0, len(client.mr.Bytes()))}, 0)
		r := server.result()
		fmt.Printf("client %d, buffer %d: %q\n", r.QPID, r.RequestID, server.mr.Bytes()[64*r.RequestID:][:r.Bytes])
	}
	fmt.Println("fewer than three left:", (<-low).Name())
	// Output:
	// client 0, buffer 0: "this is 127.0.0.2"
	// client 1, buffer 1: "this is 127.0.0.3"
	// fewer than three left: STATUS_SUCCESS
}

// One local port serves connections to any number of destinations.
func ExampleConnector_ConnectWithSharedEndpoint() {
	client := open("127.0.0.3", make([]byte, 64), ndk.MRAllowLocalWrite)
	defer client.close()
	endpoint, _ := client.adapter.CreateSharedEndpoint(netip.MustParseAddrPort("127.0.0.3:7200"), nil, nil)
	defer endpoint.Close(nil, nil)

	for _, addr := range []string{"127.0.0.1", "127.0.0.2"} {
		server := open(addr, make([]byte, 64), ndk.MRAllowLocalWrite)
		defer server.close()
		at, accepted := server.accept(server.qp)
		qp, _ := client.pd.CreateQP(ndk.QPConfig{ReceiveCQ: client.cq, InitiatorCQ: client.cq}, nil, nil)
		defer qp.Close(nil, nil)
		connector, _ := client.adapter.CreateConnector(nil, nil)
		defer connector.Close(nil, nil)
		must(wait(func(done ndk.Completion, context any) ndk.Status {
			return connector.ConnectWithSharedEndpoint(qp, endpoint, at, limits, done, context)
		}), wait(func(done ndk.Completion, context any) ndk.Status {
			return connector.CompleteConnect(nil, nil, done, context)
		}), <-accepted)
		local, _ := connector.LocalAddress()
		peer, _ := connector.PeerAddress()
		fmt.Println(local, "to", peer.Addr())
	}
	// Output:
	// 127.0.0.3:7200 to 127.0.0.1
	// 127.0.0.3:7200 to 127.0.0.2
}
