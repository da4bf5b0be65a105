package ndinspect

import (
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Version is that of the protocol.
const Version = 1

// The bounds of the protocol.
const (
	maxRequestBytes = 4 << 10
	maxReplyBytes   = 64 << 20
	// MaxConnections is how many connections a Reply has at the most; Truncated says that there are more.
	MaxConnections = 10000
	maxClients     = 8 // of one socket at a time; others wait
	// replyTimeout bounds the writing and reading of one Reply. A client may think between requests for idleTimeout.
	replyTimeout = 5 * time.Second
	idleTimeout  = time.Minute
	// stallTimeout bounds how long a client of a capture may take nothing. Until then packets wait in the capture's buffer, and are
	// lost and counted when that is full.
	stallTimeout = 10 * time.Second
)

// Request asks for one Reply.
type Request struct {
	Version int `json:"version"`
	// Peer leaves out the connections with other hosts, unless it is the zero Addr.
	Peer netip.Addr `json:"peer,omitzero"`
	// Capture asks for packets behind the Reply, which then says Streams. It is the last request of a client.
	Capture *CaptureRequest `json:"capture,omitempty"`
}

// CaptureRequest says what to capture.
type CaptureRequest struct {
	SnapLength int    `json:"snap_length,omitempty"` // bytes of each packet; 0 is all
	MaxPackets uint64 `json:"max_packets,omitempty"` // ends the capture; 0 is no bound
}

// Reply is what an adapter does at a moment.
type Reply struct {
	Version     int                 `json:"version"`
	Error       string              `json:"error,omitempty"` // instead of all else
	PID         int                 `json:"pid"`
	Command     string              `json:"command"`
	At          time.Time           `json:"at"` // by the wall clock
	Adapter     netip.Addr          `json:"adapter"`
	Datapath    string              `json:"datapath"`
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
}
