package host

import (
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var must = testhelp.Must

// Values that occur in the kernel's messages.
const ourIndex = 7

var (
	ourAddr = netip.MustParseAddr("10.99.0.1")
	peerOne = netip.MustParseAddr("10.99.0.2")
	macA    = [6]byte{2, 0, 0, 0, 0, 0xa}
	macB    = [6]byte{2, 0, 0, 0, 0, 0xb}
)
