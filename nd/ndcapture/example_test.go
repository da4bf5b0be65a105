package ndcapture_test

import (
	"bytes"
	"fmt"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndcapture"
)

// here is an address of this machine that no other program uses.
var here = netlabtest.Loopback()[0]

// A program records the packets of its adapter. Wireshark opens the file.
func ExampleStart() {
	adapter, err := nd.OpenAdapter(nd.AdapterConfig{Address: here, Datapath: nd.DatapathUDP})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer adapter.Close()
	var file bytes.Buffer
	recording, err := ndcapture.Start(adapter, &file, ndcapture.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The connections of the adapter do their work here.
	summary, err := recording.Stop()
	fmt.Println(summary.Lost, file.Len() > 0, err)
	// Output: 0 true <nil>
}
