package ndk_test

import (
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/nd/ndk"
)

// side is what one end of a connection needs.
type side struct {
	adapter *ndk.Adapter
	pd      *ndk.PD
	cq      *ndk.CQ
	qp      *ndk.QP
	mr      *ndk.MR
	arrived chan ndk.Status // notifications of cq
}

func open(addr string) (*side, error) {
	s := &side{arrived: make(chan ndk.Status, 1)}
	var err error
	if s.adapter, err = ndk.OpenAdapter(ndk.AdapterConfig{Address: netip.MustParseAddr(addr), UDPPort: 14797, Datapath: "udp"}); err != nil {
		return nil, err
	}
	var st [4]ndk.Status
	s.pd, st[0] = s.adapter.CreatePD(nil, nil)
	s.cq, st[1] = s.adapter.CreateCQ(64, func(_ any, st ndk.Status) { s.arrived <- st }, nil, nil, nil)
	s.qp, st[2] = s.pd.CreateQP(ndk.QPConfig{ReceiveCQ: s.cq, InitiatorCQ: s.cq, ReceiveDepth: 8, InitiatorDepth: 8}, nil, nil)
	s.mr, st[3] = s.pd.CreateMR(false, nil, nil)
	for _, st := range append(st[:], s.mr.Register(make([]byte, 4096), ndk.MRAllowLocalWrite, nil, nil)) {
		if st.Failed() {
			return nil, st
		}
	}
	return s, nil
}

// close ends everything; the order does not matter, and neither do callbacks: Adapter.Close waits for all.
func (s *side) close() {
	s.mr.Close(nil, nil)
	s.qp.Close(nil, nil)
	s.cq.Close(nil, nil)
	s.pd.Close(nil, nil)
	s.adapter.Close()
}

// result waits for one result.
func (s *side) result() ndk.Result {
	var r [1]ndk.Result
	for s.cq.GetResults(r[:]) == 0 {
		s.cq.Arm(ndk.NotifyAny)
		<-s.arrived
	}
	return r[0]
}

// A listener's callback accepts, and a message arrives.
func Example() {
	server, err := open("127.0.0.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := open("127.0.0.2")
	if err != nil {
		fmt.Println(err)
		return
	}
	server.qp.Receive(1, []ndk.SGE{server.mr.SGE(0, 64)})
	var incoming *ndk.Connector
	listener, _ := server.adapter.CreateListener(func(_ any, c *ndk.Connector) {
		incoming = c
		c.Accept(server.qp, ndk.ConnectParams{}, nil, nil, func(any, ndk.Status) {}, nil)
	}, nil, nil, nil)
	at := netip.MustParseAddrPort("127.0.0.1:7100")
	listener.Listen(at, nil, nil)

	connector, _ := client.adapter.CreateConnector(nil, nil)
	connected := make(chan ndk.Status, 1)
	connector.Connect(client.qp, netip.MustParseAddrPort("127.0.0.2:0"), at, ndk.ConnectParams{}, func(_ any, s ndk.Status) {
		if s == ndk.StatusSuccess { // the next step, from the callback
			s = connector.CompleteConnect(nil, nil, func(_ any, s ndk.Status) { connected <- s }, nil)
		}
		if s != ndk.StatusPending {
			connected <- s
		}
	}, nil)
	fmt.Println("connect:", (<-connected).Name())

	n := copy(client.mr.Bytes(), "a message")
	client.qp.Send(2, []ndk.SGE{client.mr.SGE(0, n)}, 0)
	fmt.Println("send:", client.result().Status.Name())
	r := server.result()
	fmt.Printf("receive: %s %q\n", r.Status.Name(), server.mr.Bytes()[:r.Bytes])

	connector.Close(nil, nil)
	listener.Close(nil, nil) // waits for the connector that arrived over it
	incoming.Close(nil, nil)
	client.close()
	server.close()
	// Output:
	// connect: STATUS_SUCCESS
	// send: STATUS_SUCCESS
	// receive: STATUS_SUCCESS "a message"
}
