package inspect

import (
	"net/netip"
	"time"
)

// Version is the version of the protocol.
const Version = 3

// Limits of the protocol.
const (
	MaxRequestBytes = 4 << 10
	MaxReplyBytes   = 64 << 20
	// MaxConnections is the largest number of connections in a Reply. Truncated means that there are more.
	MaxConnections = 10000
	maxClients     = 8 // clients of one socket at a time; others wait
	acceptPause    = 100 * time.Millisecond
	// ReplyTimeout bounds the writing and reading of one Reply. A client may pause between requests for idleTimeout.
	ReplyTimeout = 5 * time.Second
	idleTimeout  = time.Minute
	// StoppedAfter is the time without an answer after which a client checks whether the process is stopped.
	StoppedAfter = 300 * time.Millisecond
	// StallTimeout is how long a client of a capture may read nothing. Until then packets wait in the capture's buffer. If it is
	// full, they are lost and counted.
	StallTimeout = 10 * time.Second
	// flushEvery is the longest time that captured packets wait for a block to fill.
	flushEvery = 100 * time.Millisecond
	// BlockHeader is the size of the length in front of each block of a capture, and MaxBlock the largest length.
	BlockHeader = 4
	MaxBlock    = 1 << 20
	blockBytes  = 1 << 18 // bytes sent at once
)

// Request requests one Reply.
type Request struct {
	Version int             `json:"version"`
	Peer    netip.Addr      `json:"peer,omitzero"`     // only connections with this peer
	Flight  bool            `json:"flight,omitempty"`  // include the flight recorders
	Capture *CaptureRequest `json:"capture,omitempty"` // packets follow the Reply; this is the client's last request
}

// CaptureRequest configures a capture.
type CaptureRequest struct {
	SnapLength int    `json:"snap_length,omitempty"` // bytes of each packet; 0 is all
	MaxPackets uint64 `json:"max_packets,omitempty"` // ends the capture after this many packets; 0 for no limit
}

// Head is the beginning of each Reply.
type Head struct {
	Version int       `json:"version"`
	Error   string    `json:"error,omitempty"` // if set, the Reply has no further fields
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	At      time.Time `json:"at"`              // by the wall clock
	Opened  time.Time `json:"opened,omitzero"` // when the adapter was opened; missing in older builds
	Streams bool      `json:"streams,omitempty"`
}

// End follows the last block of a capture.
type End struct {
	Lost uint64 `json:"lost"` // packets that did not fit into the buffer
}

// Adapter answers the requests of a Server. Any goroutine may call its methods.
type Adapter interface {
	// Answer returns a Reply, which begins with a Head.
	Answer(Head, Request) any
	// Capture starts a capture.
	Capture(snap int) (Capture, error)
}

// Capture is a running capture. Any goroutine may call Stop, more than once.
type Capture interface {
	// Next appends the record of the next packet. It returns io.EOF at the end: after Stop, or after the adapter's end.
	Next(b []byte) ([]byte, error)
	Lost() uint64
	Stop()
}
