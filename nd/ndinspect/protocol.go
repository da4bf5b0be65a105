package ndinspect

import (
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/inspect"
	"github.com/ndxdp/ndxdp/nd"
)

// Version is the version of the protocol.
const Version = 3

// MaxConnections is the largest number of connections in a Reply. Truncated means that there are more.
const MaxConnections = 10000

// Compile-time check that these numbers equal the constants of package inspect: an array of length 1 has only the index 0.
var _ = []int{[1]int{}[Version-inspect.Version], [1]int{}[MaxConnections-inspect.MaxConnections]}

// Request requests one Reply.
type Request struct {
	// Peer, unless it is the zero Addr, selects the connections with this host.
	Peer netip.Addr
	// Flight requests the last events of the engines.
	Flight bool
}

// CaptureRequest configures a capture.
type CaptureRequest struct {
	SnapLength int    // bytes of each packet; 0 is all
	MaxPackets uint64 // ends the capture after this many packets; 0 for no limit
}

// Build describes the ndxdp version of a process. Unknown fields are "unknown".
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // only if ndxdp is the main module
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Reply is the state of an adapter at one moment.
type Reply struct {
	Version     int                 `json:"version"`
	Error       string              `json:"error,omitempty"` // if set, the Reply has no further fields
	PID         int                 `json:"pid"`
	Command     string              `json:"command"`
	At          time.Time           `json:"at"`              // by the wall clock
	Opened      time.Time           `json:"opened,omitzero"` // when the adapter was opened and its counters began; zero from older builds
	Build       Build               `json:"build"`
	Adapter     netip.Addr          `json:"adapter"`
	Namespace   uint64              `json:"network_namespace"` // as from Namespace; several namespaces may have equal addresses
	Interface   string              `json:"interface"`
	Driver      string              `json:"driver"`
	MTU         int                 `json:"mtu"`    // bytes
	Queues      int                 `json:"queues"` // receive queues, each with an engine
	Datapath    string              `json:"datapath"`
	Reason      string              `json:"reason"`              // why this datapath
	ZeroCopy    bool                `json:"zero_copy"`           // as reported by the kernel
	Copying     string              `json:"copying,omitempty"`   // why the sockets copy; empty over plain sockets
	Apart       string              `json:"apart,omitempty"`     // why plain sockets send or receive packets one by one; see nd.DatapathInfo
	BulkPort    uint16              `json:"bulk_port,omitempty"` // UDP port of the bulk path; 0 if it has none
	NoBulk      string              `json:"no_bulk,omitempty"`   // why there is none, or why it has stopped working
	Capturing   bool                `json:"capturing,omitempty"` // a capture is running
	Streams     bool                `json:"streams,omitempty"`   // a capture follows
	Stats       nd.Stats            `json:"stats"`
	Connections []nd.ConnectionInfo `json:"connections"`
	Truncated   bool                `json:"truncated,omitempty"`
	Flight      string              `json:"flight,omitempty"` // the last events of each engine, as text
}
