package ndk_test

import (
	"encoding/binary"
	"fmt"

	"github.com/ndxdp/ndxdp/nd/ndk"
)

// A Write does not notify the peer. A solicited Send behind it does: when it arrives, the Write is in place.
func ExampleQP_Write() {
	server := open("127.0.0.1", make([]byte, 4096), ndk.MRAllowRemoteWrite)
	defer server.close()
	client := open("127.0.0.2", []byte("written from afar"), 0)
	defer client.close()
	connect(client, server, server.qp)
	server.qp.Receive(1, nil) // for a message without bytes
	server.cq.Arm(ndk.NotifySolicited)

	// Address and token come from the server, in a message or with Accept.
	addr, token := server.mr.Address()+100, server.mr.RemoteToken()
	data := client.mr.Bytes()
	client.qp.Write(2, []ndk.SGE{client.mr.SGE(0, len(data))}, addr, token, ndk.OpSilentSuccess|ndk.OpDefer)
	client.qp.Send(3, nil, ndk.OpSendAndSolicitEvent)

	fmt.Println("notified:", (<-server.arrived).Name())
	fmt.Printf("request %d: %q\n", server.result().RequestID, server.mr.Bytes()[100:][:len(data)])
	// Output:
	// notified: STATUS_SUCCESS
	// request 1: "written from afar"
}

// The server grants reads, and does nothing more. Each Read fetches one entry of its table.
func ExampleQP_Read() {
	table := make([]byte, 100*8)
	for i := range uint64(100) {
		binary.BigEndian.PutUint64(table[8*i:], i*i)
	}
	server := open("127.0.0.1", table, ndk.MRAllowRemoteRead)
	defer server.close()
	client := open("127.0.0.2", make([]byte, 8), ndk.MRAllowLocalWrite)
	defer client.close()
	connect(client, server, server.qp)

	for _, i := range []uint64{7, 42} {
		client.qp.Read(i, []ndk.SGE{client.mr.SGE(0, 8)}, server.mr.Address()+8*i, server.mr.RemoteToken(), 0)
		r := client.result()
		fmt.Println(r.RequestID, binary.BigEndian.Uint64(client.mr.Bytes()), r.Status.Name())
	}
	// Output:
	// 7 49 STATUS_SUCCESS
	// 42 1764 STATUS_SUCCESS
}

// The region grants nothing to peers. A window lets one peer read a part of it, until the window is invalidated.
func ExampleQP_Bind() {
	server := open("127.0.0.1", []byte("mine, for you, mine"), ndk.MRAllowLocalWrite)
	defer server.close()
	client := open("127.0.0.2", make([]byte, 64), ndk.MRAllowLocalWrite)
	defer client.close()
	connect(client, server, server.qp)
	window, _ := server.pd.CreateMW(nil, nil)
	defer window.Close(nil, nil)

	server.qp.Bind(1, server.mr, window, server.mr.Bytes()[6:13], ndk.OpAllowRemoteRead)
	fmt.Println("bind:", server.result().Status.Name())
	read := func() ndk.Status { // the window begins at the address of its first byte in the region
		client.qp.Read(2, []ndk.SGE{client.mr.SGE(0, 7)}, server.mr.Address()+6, window.RemoteToken(), 0)
		return client.result().Status
	}
	fmt.Printf("read: %s %q\n", read().Name(), client.mr.Bytes()[:7])

	server.qp.Invalidate(3, window, 0)
	fmt.Println("invalidate:", server.result().Status.Name())
	fmt.Println("read:", read().Name()) // this ends the connection
	// Output:
	// bind: STATUS_SUCCESS
	// read: STATUS_SUCCESS "for you"
	// invalidate: STATUS_SUCCESS
	// read: STATUS_REMOTE_RESOURCES
}

// A fast registration is posted like any request. The peer ends the registration with the message that reports its completion.
func ExampleQP_FastRegister() {
	server := open("127.0.0.1", make([]byte, 64), ndk.MRAllowLocalWrite)
	defer server.close()
	client := open("127.0.0.2", []byte("into page two"), 0)
	defer client.close()
	connect(client, server, server.qp)

	// Once for the program: map the memory, and make a region for up to 4 of its pages.
	memory := make([]byte, 4*ndk.PageSize)
	lam := &ndk.LAM{Pages: make([]ndk.LogicalAddress, 0, 4)}
	_, s := server.adapter.BuildLAM(memory, lam, nil, nil)
	defer server.adapter.ReleaseLAM(lam)
	region, _ := server.pd.CreateMR(true, nil, nil)
	defer region.Close(nil, nil)
	fmt.Println(s.Name(), region.InitializeFastRegister(4, true, nil, nil).Name())

	// For each transfer: register some of the pages, at an address of our choice. A real program would send address and token right
	// behind the registration. Here the client knows them, so we wait for the result.
	const base = 1 << 20
	server.qp.Receive(1, nil)
	server.qp.FastRegister(2, region, lam.Pages[2:3], 0, ndk.PageSize, base, ndk.OpAllowRemoteWrite)
	fmt.Println("register:", server.result().Status.Name())
	client.qp.Write(3, []ndk.SGE{client.mr.SGE(0, 13)}, base, region.RemoteToken(), ndk.OpSilentSuccess)
	client.qp.SendAndInvalidate(4, nil, 0, region.RemoteToken())

	var r [1]ndk.ResultEx
	for server.cq.GetResultsEx(r[:]) == 0 {
		server.cq.Arm(ndk.NotifyAny)
		<-server.arrived
	}
	fmt.Println("invalidated:", r[0].Type == ndk.OperationReceiveAndInvalidate && r[0].Invalidated == region.RemoteToken())
	fmt.Printf("%q\n", memory[2*ndk.PageSize:][:13])
	// Output:
	// STATUS_SUCCESS STATUS_SUCCESS
	// register: STATUS_SUCCESS
	// invalidated: true
	// "into page two"
}
