package ndhealth_test

import (
	"context"
	"fmt"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// A program checks whether it can open an adapter on an interface, and gets the remedies if it cannot.
func ExampleExamine() {
	report, err := ndhealth.Examine(context.Background(), ndhealth.Config{Interface: "lo", Datapath: nd.DatapathUDP})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Interface, report.Datapath)
	// Output: lo udp
}
