package cli

import (
	"fmt"

	"github.com/ndxdp/ndxdp/nd"
)

// Datapath says in part of a line how an adapter's packets move, and why: one who gets plain sockets, because nobody asked for more and there is no more to be had,
// reads here what was lost.
func Datapath(i nd.DatapathInfo) string { return fmt.Sprintf("datapath %s: %s", i.Datapath, i.Reason) }
