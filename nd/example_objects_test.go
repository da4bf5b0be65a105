package nd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ndxdp/ndxdp/nd"
)

// Lists the addresses that adapters can be opened on.
func ExampleProvider() {
	p, err := nd.OpenProvider()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	list, err := p.QueryAddressList()
	fmt.Println(slices.Contains(list, netip.MustParseAddr("127.0.0.1")), err)
	fmt.Println(p.CheckAddress(netip.MustParseAddr("192.0.2.1")))
	// Output:
	// true <nil>
	// nd: check address 192.0.2.1:0: not an address of this adapter (ND_INVALID_ADDRESS)
}

// Queries the limits of an adapter.
func ExampleAdapter_Query() {
	port, err := freePort()
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr("127.0.0.1"), Datapath: nd.DatapathUDP, UDPPort: port})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	info, err := a.Query()
	fmt.Println(info.MaxInlineDataSize, info.MaxCallerData, info.Flags&nd.AdapterInOrderDMA != 0, err)
	// Output:
	// 256 512 true <nil>
}

// A region is registered, deregistered, and registered again with another right. The old token is invalid afterwards.
func ExampleMemoryRegion() {
	port, err := freePort()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := newParty("127.0.0.1", port)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.adapter.Close()
	region, err := p.adapter.CreateMemoryRegion()
	if err != nil {
		fmt.Println(err)
		return
	}
	buf := make([]byte, 4096)
	first := region.Register(buf, nd.MRAllowRemoteRead)
	token := region.RemoteToken()
	again := region.Register(buf, 0) // one registration at a time
	fmt.Println(first, errors.Is(again, nd.ErrInvalidDeviceState))
	fmt.Println(region.Deregister(), region.Register(buf, nd.MRAllowRemoteWrite), region.RemoteToken() != token)
	// Output:
	// <nil> true
	// <nil> <nil> true
}

// Notify sleeps until a result can be fetched. The end of the context ends the wait.
func ExampleCompletionQueue_Notify() {
	port, err := freePort()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := newParty("127.0.0.1", port)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.adapter.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = p.cq.Notify(ctx, nd.NotifyAny)
	fmt.Println(errors.Is(err, nd.ErrCanceled), errors.Is(err, context.Canceled))
	// Output:
	// true true
}

// A program waits for an armed notification and for other Go channels at the same time.
func ExampleNotification() {
	port, err := freePort()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := newParty("127.0.0.1", port)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.adapter.Close()
	quit := make(chan string, 1)
	armed, err := p.cq.Arm(nd.NotifyAny)
	if err != nil {
		fmt.Println(err)
		return
	}
	var results [16]nd.Result
	if p.cq.GetResults(results[:]) == 0 { // results from here on end the wait
		quit <- "quit"
		select {
		case <-armed.Done():
			fmt.Println("results:", armed.Err())
		case why := <-quit:
			armed.Cancel()
			fmt.Println(why, errors.Is(armed.Err(), nd.ErrCanceled))
		}
	}
	// Output:
	// quit true
}

// A connector reports why a connection was not made, and can be used again.
func ExampleConnector() {
	port, err := freePort()
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err1 := newParty("127.0.0.1", port)
	b, err2 := newParty("127.0.0.2", port)
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	defer a.adapter.Close()
	defer b.adapter.Close()
	ctx := context.Background()
	err = a.conn.Connect(ctx, a.qp, netip.MustParseAddrPort("127.0.0.2:7000"), nd.ConnectParams{})
	fmt.Println(errors.Is(err, nd.ErrConnectionRefused)) // no listener has this port
	fmt.Println(meet(ctx, a, b))
	peer, err := a.conn.PeerAddress()
	fmt.Println(peer, err)
	// Output:
	// true
	// <nil>
	// 127.0.0.2:7000 <nil>
}
