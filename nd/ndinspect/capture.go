package ndinspect

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ndxdp/ndxdp/internal/inspect"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndcapture"
)

// Summary is the result of a capture.
type Summary = ndcapture.Summary

// Capture writes the packets of the process's adapter to w as pcapng, until ctx ends or after q.MaxPackets. The client cannot be
// used afterwards. The process never waits for w: packets that do not fit into its buffer are lost, and Summary counts them.
//
// Errors: the errors of Ask and of w, and the text of errors of nd.Adapter.StartCapture. io.ErrUnexpectedEOF if the process ended; nd.ErrInvalidParameter
// if ctx or w is nil.
func (c *Client) Capture(ctx context.Context, q CaptureRequest, w io.Writer) (sum Summary, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ndinspect: capture from %s: %w", c.path, err)
		}
	}()
	if ctx == nil || w == nil {
		return sum, fmt.Errorf("no context or no writer: %w", nd.ErrInvalidParameter)
	}
	r, err := c.exchange(inspect.Request{Capture: &inspect.CaptureRequest{SnapLength: q.SnapLength, MaxPackets: q.MaxPackets}})
	if err == nil {
		err = c.conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return sum, err
	}
	dp, err := nd.ParseDatapath(r.Datapath)
	if err != nil {
		return sum, err
	}
	in := bufio.NewReader(io.MultiReader(c.in.Buffered(), c.conn))
	if _, err := in.Discard(1); err != nil { // the end of the Reply's line
		return sum, err
	}
	from := &remote{client: c, ctx: ctx, blocks: blocks{in: in}}
	from.records = bufio.NewReader(&from.blocks)
	defer context.AfterFunc(ctx, from.Stop)()
	info := nd.DatapathInfo{Interface: r.Interface, Driver: r.Driver, MTU: r.MTU, Queues: r.Queues, Datapath: dp}
	return ndcapture.Copy(w, info, from, ndcapture.Config{CaptureConfig: nd.CaptureConfig{SnapLength: q.SnapLength}})
}

// remote is a capture in another process.
type remote struct {
	client  *Client
	ctx     context.Context
	blocks  blocks
	records *bufio.Reader
	record  inspect.Record
}

// Next implements ndcapture.Source.
func (r *remote) Next(p *nd.CapturedPacket) error {
	if r.ctx.Err() != nil {
		_ = r.client.conn.SetReadDeadline(time.Now().Add(inspect.StallTimeout)) // a closed connection fails below
	}
	err := r.record.Read(r.records)
	switch {
	case err == nil:
		*p = nd.CapturedPacket(r.record)
		return nil
	case errors.Is(err, io.EOF) && r.blocks.ended:
		return io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the process ended, or closed its adapter: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Lost implements ndcapture.Source. The process sends the number at the end.
func (r *remote) Lost() uint64 { return r.blocks.end.Lost }

// Stop implements ndcapture.Source. The process still sends buffered packets.
func (r *remote) Stop() {
	_ = r.client.conn.SetReadDeadline(time.Now().Add(inspect.StallTimeout)) // a closed connection fails in Next
	_ = r.client.conn.CloseWrite()
}

// blocks reads the contents of the capture's blocks as a stream.
type blocks struct {
	in    *bufio.Reader
	left  int // rest of the block
	ended bool
	end   inspect.End
}

func (b *blocks) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	if b.left == 0 {
		var header [inspect.BlockHeader]byte
		if _, err := io.ReadFull(b.in, header[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(header[:])
		if n > inspect.MaxBlock {
			return 0, fmt.Errorf("a block of %d bytes is larger than the limit of %d: is the peer an adapter?", n, inspect.MaxBlock)
		}
		if n == 0 {
			if err := json.NewDecoder(io.LimitReader(b.in, inspect.MaxRequestBytes)).Decode(&b.end); err != nil {
				return 0, err
			}
			b.ended = true
			return 0, io.EOF
		}
		b.left = int(n)
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
