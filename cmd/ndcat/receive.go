package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
)

// receive receives the data of one sender.
func receive(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	l, err := o.net.Listen(nd.EndpointConfig{MemoryBytes: slots * slotLen, Rights: nd.MRAllowRemoteWrite})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	at, err := l.Address()
	if err != nil {
		return err
	}
	(&cli.Events{To: stderr, JSON: o.json}).Say(waiting{"waiting", at.String(), l.Adapter.Datapath().Datapath.String()},
		"waiting at %s, %s", at, cli.Datapath(l.Adapter.Datapath()))
	e, err := meet(ctx, l, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	bar := cli.NewTransfer(stderr, -1)
	defer bar.Finish()
	for slot := range slots {
		if err := e.QueuePair.Receive(0, []nd.SGE{e.Memory.SGE(slot*slotLen, slotLen)}); err != nil {
			return err
		}
	}
	begin := time.Now()
	sum, total, out := sha256.New(), uint64(0), output{to: stdout}
	for n := 0; ; n++ {
		kind, data, err := next(ctx, e, n%slots)
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", total, err)
		}
		if kind == kindEnd {
			want := sum.Sum(binary.BigEndian.AppendUint64(nil, total))
			if err := conclude(ctx, e, bytes.Equal(data, want), total); err != nil {
				return err
			}
			bar.Finish()
			told(stderr, o, done{"done", "receiver", total, time.Since(begin).Seconds(), hex.EncodeToString(sum.Sum(nil)), l.Adapter.Datapath().Datapath.String()})
			return nil
		}
		if err := out.write(ctx, data); err != nil && ctx.Err() == nil {
			return errors.Join(err, tellWhy(ctx, e, err))
		} else if err != nil { // interrupted, which also makes writes fail: one signal often ends the reader of a pipe, too
			return fmt.Errorf("after %d bytes: %w", total, context.Cause(ctx))
		}
		sum.Write(data)
		total += uint64(len(data))
		bar.Add(len(data))
		if err := e.QueuePair.Receive(0, []nd.SGE{e.Memory.SGE(n%slots*slotLen, slotLen)}); err != nil {
			return err
		}
		if err := e.QueuePair.Send(0, []nd.SGE{{Buffer: []byte{ackTaken}}}, nd.OpInline|nd.OpSilentSuccess); err != nil {
			return err
		}
	}
}

// output is where the bytes are written. A write to a pipe that nobody reads may block forever, so it runs in a goroutine, and the
// receiver can react to an interruption.
type output struct {
	to  io.Writer
	buf []byte // the bytes being written, copied because the adapter's memory may go first
}

func (o *output) write(ctx context.Context, data []byte) error {
	o.buf = append(o.buf[:0], data...)
	written := make(chan error, 1)
	go func() {
		_, err := o.to.Write(o.buf)
		written <- err
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// meet waits for the sender. If a peer is not an endpoint or gives up, meet reports it on stderr and waits for the next one.
func meet(ctx context.Context, l *nd.EndpointListener, stderr io.Writer) (*nd.Endpoint, error) {
	aboutOne := []nd.Status{nd.ErrConnectionAborted, nd.ErrConnectionRefused, nd.ErrIOTimeout, nd.ErrInvalidBufferSize}
	for {
		e, err := l.Accept(ctx)
		if !slices.ContainsFunc(aboutOne, func(s nd.Status) bool { return errors.Is(err, s) }) {
			return e, err
		}
		fmt.Fprintln(stderr, err)
	}
}

// next waits for the next message, and returns its kind and data.
func next(ctx context.Context, e *nd.Endpoint, slot int) (kind byte, data []byte, err error) {
	if _, err := e.Result(ctx); err != nil {
		return 0, nil, err
	}
	mem := e.Memory.Bytes()[slot*slotLen:][:slotLen]
	n := binary.BigEndian.Uint32(mem[4:])
	if n > chunk || mem[0] != kindData && mem[0] != kindEnd {
		return 0, nil, fmt.Errorf("the peer sent a message of kind %d with %d bytes, which ndcat never sends: connect from ndcat", mem[0], n)
	}
	return mem[0], mem[headerLen:][:n], nil
}

// tellLimit bounds the time to tell the sender that writing failed.
const tellLimit = 5 * time.Second

// tellWhy tells the sender why its bytes could not be written.
func tellWhy(ctx context.Context, e *nd.Endpoint, why error) error {
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	text := append([]byte{ackWhy}, cli.OneLine(why)...)
	if err := e.QueuePair.Send(0, []nd.SGE{{Buffer: text[:min(len(text), ackLen)]}}, nd.OpInline); err != nil {
		return err
	}
	for {
		res, err := e.Result(ctx)
		if err != nil {
			return err
		}
		if res.Type == nd.RequestSend {
			return e.Connector.Disconnect(ctx)
		}
	}
}

// conclude tells the sender whether its bytes arrived, and ends the connection after the answer was sent.
func conclude(ctx context.Context, e *nd.Endpoint, same bool, total uint64) error {
	verdict := map[bool]byte{false: ackOther, true: ackSame}[same]
	err := e.QueuePair.Send(0, []nd.SGE{{Buffer: []byte{verdict}}}, nd.OpInline)
	if err == nil {
		_, err = e.Result(ctx)
	}
	if !same {
		return errors.Join(fmt.Errorf("the hash of the %d received bytes is not the sender's", total), err)
	}
	if err == nil {
		err = e.Connector.Disconnect(ctx)
	}
	return err
}
