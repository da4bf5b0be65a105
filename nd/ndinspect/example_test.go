package ndinspect_test

import (
	"context"
	"fmt"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// here is an address of this machine that no other program uses.
var here = netlabtest.Loopback()[0]

// A program queries the counters of an adapter through its socket. ndinspect.Sockets lists the sockets of all adapters.
func ExampleAskAll() {
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: here, Datapath: nd.DatapathUDP})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer adapter.Close()
	path, err := adapter.Inspection()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, answer := range ndinspect.AskAll(context.Background(), []string{path}, ndinspect.Request{}) {
		if answer.Err != nil {
			fmt.Println(answer.Err)
			continue
		}
		fmt.Println(answer.Reply.Datapath, answer.Reply.Stats.Connections.Open)
	}
	// Output: udp 0
}
