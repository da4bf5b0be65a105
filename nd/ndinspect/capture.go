package ndinspect

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndcapture"
)

// blockHeader is the length in front of each block of a capture.
const blockHeader = 4

// maxBlock is more than what a recording writes at once.
const maxBlock = 1 << 20

// Summary says what became of the packets of a capture.
type Summary = ndcapture.Summary

// blocks is the serving side of a capture: each Write is a block, or several.
type blocks struct {
	to     net.Conn
	stall  time.Duration
	ready  chan struct{} // closed when the Reply is out
	failed context.CancelFunc
}

func (b *blocks) Write(p []byte) (n int, err error) {
	<-b.ready
	for err == nil && n < len(p) {
		part := p[n:min(len(p), n+maxBlock)]
		_ = b.to.SetWriteDeadline(time.Now().Add(b.stall)) // a closed connection shows below
		if _, err = b.to.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))); err == nil {
			_, err = b.to.Write(part)
		}
		n += len(part)
	}
	if err != nil {
		b.failed()
	}
	return n, err
}

// stream captures until the client ends it, goes away or stalls, or has as much as it wanted, and then tells it what became of
// the packets. The adapter has no tap any more when it returns.
func (s *Server) stream(c net.Conn, q CaptureRequest) {
	r := Reply{Version: Version, PID: os.Getpid(), Command: filepath.Base(os.Args[0]), At: time.Now(), Capturing: true, Streams: true}
	over, end := context.WithCancel(context.Background())
	defer end()
	out := &blocks{to: c, stall: s.stall, ready: make(chan struct{}), failed: end}
	rec, err := ndcapture.Start(s.adapter, out, ndcapture.Config{
		CaptureConfig: nd.CaptureConfig{SnapLength: q.SnapLength}, MaxPackets: q.MaxPackets,
	})
	if err != nil {
		r = Reply{Version: Version, Error: err.Error()}
	}
	failed := json.NewEncoder(c).Encode(r)
	close(out.ready)
	if err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{}) // a client says nothing until the end
	s.done.Go(func() {                 // until the connection is closed, by either side
		_, _ = io.Copy(io.Discard, c) // however it ends
		end()
	})
	if failed == nil {
		select {
		case <-over.Done():
		case <-rec.Done():
		}
	}
	sum, err := rec.Stop()
	if err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(replyTimeout)) // the client notices that the end is missing
	if _, err := c.Write(make([]byte, blockHeader)); err == nil {
		_ = json.NewEncoder(c).Encode(sum) // as above
	}
}

// Capture writes the packets of the process's adapter to w as pcapng, until ctx ends or q.MaxPackets are there. After that the client
// is of no use any more. The process never waits for w: packets for which it has no room are lost, and Summary counts them.
//
// Errors: those of Ask, of nd.Adapter.StartCapture by their text, of w; io.ErrUnexpectedEOF in it when the process ended;
// nd.ErrInvalidParameter when ctx or w is nil, before anything is asked.
func (c *Client) Capture(ctx context.Context, q CaptureRequest, w io.Writer) (sum Summary, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ndinspect: capture from %s: %w", c.path, err)
		}
	}()
	if ctx == nil || w == nil {
		return sum, fmt.Errorf("no context or no writer: %w", nd.ErrInvalidParameter)
	}
	r, err := c.exchange(Request{Capture: &q})
	if err == nil && !r.Streams {
		err = errors.New("the process knows no captures: it was built with an older ndxdp")
	}
	if err == nil {
		err = c.conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return sum, err
	}
	defer context.AfterFunc(ctx, func() {
		_ = c.conn.SetReadDeadline(time.Now().Add(stallTimeout)) // a closed connection shows below
		_ = c.conn.CloseWrite()
	})()
	in := bufio.NewReader(io.MultiReader(c.in.Buffered(), c.conn))
	if _, err := in.Discard(1); err != nil { // the end of the Reply's line
		return sum, err
	}
	for {
		var header [blockHeader]byte
		if _, err := io.ReadFull(in, header[:]); err != nil {
			return sum, cutOff(err)
		}
		n := binary.BigEndian.Uint32(header[:])
		switch {
		case n == 0:
			return sum, json.NewDecoder(io.LimitReader(in, maxRequestBytes)).Decode(&sum)
		case n > maxBlock:
			return sum, fmt.Errorf("a block of %d bytes", n)
		}
		if _, err := io.CopyN(w, in, int64(n)); err != nil {
			return sum, cutOff(err)
		}
		if ctx.Err() != nil {
			_ = c.conn.SetReadDeadline(time.Now().Add(stallTimeout)) // as above
		}
	}
}

// cutOff makes the end of a connection that comes too early an error that says so.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the process ended, or closed its adapter: %w", io.ErrUnexpectedEOF)
	}
	return err
}
