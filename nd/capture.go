package nd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ndxdp/ndxdp/internal/capture"
)

// CaptureConfig says what a capture keeps. Its zero value keeps all of every packet.
type CaptureConfig struct {
	// SnapLength is how many bytes of every ND packet are kept; 0 is all of it.
	SnapLength int
	// BufferBytes is how much memory each receive queue of the adapter has for packets that Next did not take yet; 0 is 16 MiB.
	// It is rounded up to a power of two, at least 128 KiB.
	BufferBytes int
}

// Capture copies the packets of an adapter as they come and go. Package ndcapture writes them to a file.
type Capture struct {
	feed *capture.Feed
	stop func()
	life context.Context
	end  context.CancelCauseFunc
	kept capture.Packet // of Next
}

// CapturedPacket is a packet as the network has it, and what the transport knew about it.
type CapturedPacket struct {
	Time time.Time // of the engine's turn in which it was handled
	// Queue is the receive queue whose engine handled it.
	Queue int
	Sent  bool // by this adapter; else received
	CE    bool // a router marked congestion
	// Drop is why a received packet was not used, as in Stats.Drops; empty for all others.
	Drop string
	Held bool // received, and waits for one sent before
	// ConnectionID is this side's id of the connection (PROTOCOL §6), and State where that stands on the wire after the packet. They are
	// zero for packets of no connection.
	ConnectionID uint64
	State        string
	// Frame is the Ethernet frame, cut to the snap length and the headers; on plain sockets with headers made up. It is good until
	// Next is called again.
	Frame  []byte
	Length int // bytes of the whole frame
}

// StartCapture begins to copy the adapter's packets, until Stop or Close. One capture can run at a time. It costs a copy of every
// packet, and never makes the adapter wait: packets that find no room are missing in it, and counted by Lost.
//
// Errors: ErrDeviceBusy while another capture runs, ErrDeviceRemoved, ErrInvalidParameter for negative sizes.
func (a *Adapter) StartCapture(cfg CaptureConfig) (*Capture, error) {
	const op = "start capture"
	switch {
	case a.closed():
		return nil, a.removed(op)
	case cfg.SnapLength < 0 || cfg.BufferBytes < 0:
		return nil, &Error{Op: op, Status: ErrInvalidParameter, Err: fmt.Errorf("%d and %d bytes", cfg.SnapLength, cfg.BufferBytes)}
	}
	feed, stop, err := a.verbs.StartCapture(capture.Config{Snap: cfg.SnapLength, Bytes: cfg.BufferBytes})
	if err != nil {
		return nil, &Error{Op: op, Status: ErrDeviceBusy, Err: err}
	}
	c := &Capture{feed: feed, stop: stop}
	c.life, c.end = context.WithCancelCause(a.verbs.Life)
	return c, nil
}

// Capturing says that a capture runs, which takes time for every packet. Any goroutine may ask.
func (a *Adapter) Capturing() bool { return a.verbs.Capturing() }

// Next waits for a packet and describes it in p. After Stop, or the adapter's Close, it returns what is left and then io.EOF. One
// goroutine at a time may call it. A nil p is ErrInvalidParameter.
func (c *Capture) Next(p *CapturedPacket) error {
	if p == nil {
		return &Error{Op: "next packet", Status: ErrInvalidParameter}
	}
	k := &c.kept
	if err := c.feed.Next(c.life, k); err != nil {
		return io.EOF
	}
	*p = CapturedPacket{
		Time: k.Time, Queue: k.Queue, Sent: k.Sent, CE: k.CE, Held: k.Held, ConnectionID: k.ConnID, State: k.State,
		Frame: k.Frame, Length: k.Length,
	}
	if k.Drop != 0 {
		p.Drop = k.Drop.String()
	}
	return nil
}

// Lost is how many packets found no room. Any goroutine may call it.
func (c *Capture) Lost() uint64 { return c.feed.Lost() }

// Stop ends the capture. Calling it again is harmless, and any goroutine may.
func (c *Capture) Stop() {
	c.stop()
	c.end(io.EOF)
}
