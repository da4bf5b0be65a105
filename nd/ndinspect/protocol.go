package ndinspect

import (
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/inspect"
	"github.com/ndxdp/ndxdp/nd"
)

// Version is that of the protocol.
const Version = 3

// MaxConnections is how many connections a Reply has at the most; Truncated says that there are more.
const MaxConnections = 10000

// go doc shows the numbers. They equal the inner ones: the only index of an array of length 1 is 0.
var _ = []int{[1]int{}[Version-inspect.Version], [1]int{}[MaxConnections-inspect.MaxConnections]}

// Request asks for one Reply.
type Request struct {
	// Peer leaves out the connections with other hosts, unless it is the zero Addr.
	Peer netip.Addr
	// Flight asks for the last events of the engines.
	Flight bool
}

// CaptureRequest says what to capture.
type CaptureRequest struct {
	SnapLength int    // bytes of each packet; 0 is all
	MaxPackets uint64 // ends the capture; 0 is no bound
}

// Build says which ndxdp a process was built with; what the build does not tell is "unknown".
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // only where ndxdp is the main module
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Reply is what an adapter does at a moment.
type Reply struct {
	Version     int                 `json:"version"`
	Error       string              `json:"error,omitempty"` // instead of all else
	PID         int                 `json:"pid"`
	Command     string              `json:"command"`
	At          time.Time           `json:"at"`              // by the wall clock
	Opened      time.Time           `json:"opened,omitzero"` // when the adapter was, whose counters began then; zero from older builds
	Build       Build               `json:"build"`
	Adapter     netip.Addr          `json:"adapter"`
	Namespace   uint64              `json:"network_namespace"` // as Namespace; addresses of several may be the same
	Interface   string              `json:"interface"`
	Driver      string              `json:"driver"`
	MTU         int                 `json:"mtu"`    // bytes
	Queues      int                 `json:"queues"` // receive queues, each with an engine
	Datapath    string              `json:"datapath"`
	Reason      string              `json:"reason"`              // why that one
	ZeroCopy    bool                `json:"zero_copy"`           // of the adapter's sockets, as the kernel says
	Copying     string              `json:"copying,omitempty"`   // why they copy; empty over plain sockets
	Apart       string              `json:"apart,omitempty"`     // why plain sockets send or receive packet by packet; see nd.DatapathInfo
	BulkPort    uint16              `json:"bulk_port,omitempty"` // UDP port of the bulk lane, 0 without one
	NoBulk      string              `json:"no_bulk,omitempty"`   // why there is none, or why it carries nothing any more
	Capturing   bool                `json:"capturing,omitempty"` // packets are copied, for whomever
	Streams     bool                `json:"streams,omitempty"`   // a capture follows
	Stats       nd.Stats            `json:"stats"`
	Connections []nd.ConnectionInfo `json:"connections"`
	Truncated   bool                `json:"truncated,omitempty"`
	Flight      string              `json:"flight,omitempty"` // the last events of each engine, for people
}
