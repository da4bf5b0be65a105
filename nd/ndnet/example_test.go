package ndnet_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndnet"
)

// A web server and its client over ND. Both are on one machine here, over plain UDP sockets, so that the example needs no
// privileges. Between machines each opens its own adapter, and the rest is the same.
func Example() {
	port, err := netlabtest.Port() // a port that no other example uses; between machines UDPPort is omitted
	if err != nil {
		fmt.Println(err)
		return
	}
	var network [2]*ndnet.Network
	for i, addr := range []string{"127.0.0.5", "127.0.0.6"} {
		adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(addr), UDPPort: port, Datapath: nd.DatapathUDP})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer adapter.Close()
		if network[i], err = ndnet.New(adapter, ndnet.Config{}); err != nil {
			fmt.Println(err)
			return
		}
		defer network[i].Wait(context.Background())
	}
	listener, err := network[0].Listen("tcp", ":80")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello from %s", r.URL.Path)
	})}
	go server.Serve(listener)
	defer server.Close()

	transport := &http.Transport{DialContext: network[1].DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	answer, err := client.Get("http://127.0.0.5:80/rdma")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(string(text), err)
	// Output: hello from /rdma <nil>
}
