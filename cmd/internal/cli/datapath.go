package cli

import (
	"fmt"

	"github.com/ndxdp/ndxdp/nd"
)

// Datapath describes an adapter's datapath, and why it was chosen, as part of a line. A user who gets plain sockets by default sees
// the reason.
func Datapath(i nd.DatapathInfo) string { return fmt.Sprintf("datapath %s: %s", i.Datapath, i.Reason) }
