package nd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ndxdp/ndxdp/internal/capture"
)

// CaptureConfig limits a capture. The zero value captures whole packets.
type CaptureConfig struct {
	// SnapLength is the number of bytes captured of each ND packet; 0 is all of them.
	SnapLength int
	// BufferBytes is the memory of each receive queue for packets that Next has not yet returned. 0 is 16 MiB. It is rounded up to
	// a power of two of at least 128 KiB.
	BufferBytes int
}

// Capture copies packets that an adapter sends and receives. Package ndcapture writes them to a file.
type Capture struct {
	feed *capture.Feed
	stop func()
	life context.Context
	end  context.CancelCauseFunc
	kept capture.Packet // packet of the last Next
}

// CapturedPacket is a packet on the network, with the transport's information about it.
type CapturedPacket struct {
	Time time.Time // when the engine's poll handled it
	// Queue is the receive queue whose engine handled it.
	Queue int
	Sent  bool // sent by this adapter; otherwise received
	CE    bool // a router marked congestion
	// Drop is the reason if a received packet was not used, as in Stats.Drops; otherwise empty.
	Drop string
	Held bool // received, and stored until a gap before it is filled
	// ConnectionID is this side's id of the connection (PROTOCOL §6). State is the state of the connection on the wire after the
	// packet. Both are zero if the packet belongs to no connection.
	ConnectionID uint64
	State        string
	// Frame is the Ethernet frame, cut to the snap length and the headers. On plain sockets the headers are synthesized. It is valid
	// until the next call of Next.
	Frame  []byte
	Length int // length of the whole frame in bytes
}

// StartCapture starts to copy the adapter's packets, until Stop or Close. Only one capture can run at a time. It costs one copy of
// every packet and never delays the adapter: if the buffer is full, packets are left out of the capture, and Lost counts them.
//
// Errors: ErrDeviceBusy while another capture runs, ErrDeviceRemoved, ErrInvalidParameter for negative sizes.
func (a *Adapter) StartCapture(cfg CaptureConfig) (*Capture, error) {
	const op = "start capture"
	switch {
	case a.closed():
		return nil, a.removed(op)
	case cfg.SnapLength < 0 || cfg.BufferBytes < 0:
		return nil, &Error{Op: op, Status: ErrInvalidParameter, Err: fmt.Errorf("SnapLength is %d and BufferBytes is %d: neither may be negative", cfg.SnapLength, cfg.BufferBytes)}
	}
	feed, stop, err := a.verbs.StartCapture(capture.Config{Snap: cfg.SnapLength, Bytes: cfg.BufferBytes})
	if err != nil {
		return nil, &Error{Op: op, Status: ErrDeviceBusy, Err: err}
	}
	c := &Capture{feed: feed, stop: stop}
	c.life, c.end = context.WithCancelCause(a.verbs.Life)
	return c, nil
}

// Capturing reports whether a capture is running, which costs time for every packet. Any goroutine may call it.
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

// Lost returns how many packets were left out because the buffer was full. Any goroutine may call it.
func (c *Capture) Lost() uint64 { return c.feed.Lost() }

// Stop ends the capture. Calling it twice is harmless. Any goroutine may call it.
func (c *Capture) Stop() {
	c.stop()
	c.end(io.EOF)
}
