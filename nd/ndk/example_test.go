package ndk_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd/ndk"
)

// side has the objects of one side of a connection. It runs over loopback, which needs no privilege.
type side struct {
	addr    netip.Addr
	adapter *ndk.Adapter
	pd      *ndk.PD
	cq      *ndk.CQ
	qp      *ndk.QP
	mr      *ndk.MR
	arrived chan ndk.Status // notifications of cq
	closers []closer
}

// closer is the Close of any object.
type closer = func(ndk.CloseCompletion, any) ndk.Status

// udpPort is a port that no other program here uses. Between machines it is omitted.
var udpPort = func() uint16 {
	port, err := netlabtest.Port()
	if err != nil {
		log.Fatal(err)
	}
	return port
}()

// open makes a side on a loopback address, with a region of memory that has the rights.
func open(addr string, memory []byte, rights ndk.MRFlags) *side {
	s := &side{addr: netip.MustParseAddr(addr), arrived: make(chan ndk.Status, 1)}
	var err error
	if s.adapter, err = ndk.OpenAdapter(ndk.AdapterConfig{Address: s.addr, UDPPort: udpPort, Datapath: "udp"}); err != nil {
		log.Fatal(err)
	}
	var st [4]ndk.Status
	s.pd, st[0] = s.adapter.CreatePD(nil, nil)
	s.cq, st[1] = s.adapter.CreateCQ(64, func(_ any, st ndk.Status) { s.arrived <- st }, nil, nil, nil)
	s.qp, st[2] = s.pd.CreateQP(ndk.QPConfig{ReceiveCQ: s.cq, InitiatorCQ: s.cq, ReceiveDepth: 8, InitiatorDepth: 8}, nil, nil)
	s.mr, st[3] = s.pd.CreateMR(false, nil, nil)
	must(st[:]...)
	must(s.mr.Register(memory, rights, nil, nil))
	s.closers = []closer{s.mr.Close, s.qp.Close, s.cq.Close, s.pd.Close}
	return s
}

func must(statuses ...ndk.Status) {
	for _, s := range statuses {
		if s.Failed() {
			log.Fatal(s)
		}
	}
}

// close closes everything, in any order and without callbacks: Adapter.Close waits for all objects.
func (s *side) close() {
	for _, c := range s.closers {
		c(nil, nil)
	}
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

// wait makes a call and waits until it has finished.
func wait(call func(done ndk.Completion, context any) ndk.Status) ndk.Status {
	finished := make(chan ndk.Status, 1)
	if s := call(func(_ any, s ndk.Status) { finished <- s }, nil); s != ndk.StatusPending {
		return s
	}
	return <-finished
}

// limits lets each side have four Reads outstanding.
var limits = ndk.ConnectParams{InboundReadLimit: 4, OutboundReadLimit: 4}

// accept makes a listener that accepts for qp. accepted receives the status.
func (s *side) accept(qp *ndk.QP) (at netip.AddrPort, accepted <-chan ndk.Status) {
	done := make(chan ndk.Status, 1)
	listener, st := s.adapter.CreateListener(func(_ any, c *ndk.Connector) {
		s.closers = append(s.closers, c.Close)
		c.Accept(qp, limits, nil, nil, func(_ any, st ndk.Status) { done <- st }, nil)
	}, nil, nil, nil)
	must(st, listener.Listen(netip.AddrPortFrom(s.addr, 0), nil, nil))
	s.closers = append(s.closers, listener.Close)
	at, st = listener.LocalAddress()
	must(st)
	return at, done
}

// connect connects the queue pair of a client with one of a server.
func connect(client, server *side, qp *ndk.QP) {
	at, accepted := server.accept(qp)
	c, st := client.adapter.CreateConnector(nil, nil)
	must(st, wait(func(done ndk.Completion, context any) ndk.Status {
		return c.Connect(client.qp, netip.AddrPortFrom(client.addr, 0), at, limits, done, context)
	}), wait(func(done ndk.Completion, context any) ndk.Status {
		return c.CompleteConnect(nil, nil, done, context)
	}), <-accepted)
	client.closers = append(client.closers, c.Close)
}

// A listener's callback accepts a connection, and a message arrives.
func Example() {
	server := open("127.0.0.1", make([]byte, 4096), ndk.MRAllowLocalWrite)
	defer server.close()
	client := open("127.0.0.2", []byte("a message"), 0)
	defer client.close()
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
		if s == ndk.StatusSuccess { // the next step, called from the callback
			s = connector.CompleteConnect(nil, nil, func(_ any, s ndk.Status) { connected <- s }, nil)
		}
		if s != ndk.StatusPending {
			connected <- s
		}
	}, nil)
	fmt.Println("connect:", (<-connected).Name())

	client.qp.Send(2, []ndk.SGE{client.mr.SGE(0, len("a message"))}, 0)
	fmt.Println("send:", client.result().Status.Name())
	r := server.result()
	fmt.Printf("receive: %s %q\n", r.Status.Name(), server.mr.Bytes()[:r.Bytes])

	connector.Close(nil, nil)
	listener.Close(nil, nil) // waits for the connector that it accepted
	incoming.Close(nil, nil)
	// Output:
	// connect: STATUS_SUCCESS
	// send: STATUS_SUCCESS
	// receive: STATUS_SUCCESS "a message"
}
