package inspect

import (
	"net/netip"
	"time"
)

// Version is that of the protocol.
const Version = 3

// The bounds of the protocol.
const (
	MaxRequestBytes = 4 << 10
	MaxReplyBytes   = 64 << 20
	// MaxConnections is how many connections a Reply has at the most; Truncated says that there are more.
	MaxConnections = 10000
	maxClients     = 8 // of one socket at a time; others wait
	acceptPause    = 100 * time.Millisecond
	// ReplyTimeout bounds the writing and reading of one Reply. A client may think between requests for idleTimeout.
	ReplyTimeout = 5 * time.Second
	idleTimeout  = time.Minute
	// StoppedAfter is how long a client waits before it looks whether the process is stopped, and answers nobody.
	StoppedAfter = 300 * time.Millisecond
	// StallTimeout bounds how long a client of a capture may take nothing. Until then packets wait in the capture's buffer, and are
	// lost and counted when that is full.
	StallTimeout = 10 * time.Second
	// flushEvery is how long packets of a capture wait at the most before the client gets them, where they are too few to fill a block.
	flushEvery = 100 * time.Millisecond
	// BlockHeader is the length in front of each block of a capture, and MaxBlock the most that it can be.
	BlockHeader = 4
	MaxBlock    = 1 << 20
	blockBytes  = 1 << 18 // how much is sent at once
)

// Request asks for one Reply.
type Request struct {
	Version int             `json:"version"`
	Peer    netip.Addr      `json:"peer,omitzero"`     // leaves out the connections with other hosts
	Flight  bool            `json:"flight,omitempty"`  // asks for the flight recorders too
	Capture *CaptureRequest `json:"capture,omitempty"` // asks for packets behind the Reply; the last request of a client
}

// CaptureRequest says what to capture.
type CaptureRequest struct {
	SnapLength int    `json:"snap_length,omitempty"` // bytes of each packet; 0 is all
	MaxPackets uint64 `json:"max_packets,omitempty"` // ends the capture; 0 is no bound
}

// Head is of what each Reply begins with.
type Head struct {
	Version int       `json:"version"`
	Error   string    `json:"error,omitempty"` // instead of all else
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	At      time.Time `json:"at"`              // by the wall clock
	Opened  time.Time `json:"opened,omitzero"` // when the adapter was; older builds do not say it
	Streams bool      `json:"streams,omitempty"`
}

// End is behind the last block of a capture.
type End struct {
	Lost uint64 `json:"lost"` // packets that found no room
}

// Adapter is what a Server asks. Its methods may be called from any goroutine.
type Adapter interface {
	// Answer makes a Reply that begins with a Head.
	Answer(Head, Request) any
	// Capture begins to copy packets.
	Capture(snap int) (Capture, error)
}

// Capture is a running one. Stop may be called from any goroutine and more than once.
type Capture interface {
	// Next appends the record of the next packet. It returns io.EOF when there is none any more: after Stop, or the adapter's end.
	Next(b []byte) ([]byte, error)
	Lost() uint64
	Stop()
}
