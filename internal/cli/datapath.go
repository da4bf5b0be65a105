package cli

import (
	"fmt"

	"github.com/ndxdp/ndxdp/nd"
)

// Datapath says in part of a line how an adapter's packets move, and why. A user who gets plain sockets by default reads here why there is
// nothing faster.
func Datapath(i nd.DatapathInfo) string { return fmt.Sprintf("datapath %s: %s", i.Datapath, i.Reason) }
