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
)

// Request asks for one Reply.
type Request struct {
	Version int `json:"version"`
	// Peer leaves out the connections with other hosts, unless it is the zero Addr.
	Peer netip.Addr `json:"peer,omitzero"`
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
	Stats       nd.Stats            `json:"stats"`
	Connections []nd.ConnectionInfo `json:"connections"`
	Truncated   bool                `json:"truncated,omitempty"`
}
