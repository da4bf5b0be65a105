package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// minSize holds the number of a message.
const minSize = 8

// maxSamples bounds the memory of a run without end; percentiles are those of the latest then.
const maxSamples = 1 << 20

// pinger is the asking side.
type pinger struct {
	e       *nd.Endpoint
	o       *options
	back    []nd.SGE // where answers come; one receive waits for them
	number  uint64   // of the last message
	asked   int
	answers int
	took    []time.Duration // of what was answered
	out     io.Writer
	each    io.Writer // for lines about single messages
}

// ping connects, asks and prints.
func ping(ctx context.Context, o *options, sizes []int, stdout io.Writer) (err error) {
	e, hangUp, err := o.net.Dial(ctx, nd.EndpointConfig{MemoryBytes: 2 * maxSize})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hangUp()) }()
	fmt.Fprintf(stdout, "connected to %s, datapath %s\n", o.net.At, e.Adapter.Datapath().Datapath)
	p := &pinger{e: e, o: o, back: []nd.SGE{e.Memory.SGE(maxSize, maxSize)}, out: stdout, each: stdout}
	if o.quiet {
		p.each = io.Discard
	}
	if err := e.QueuePair.Receive(0, p.back); err != nil {
		return err
	}
	answers := 0
	for _, size := range sizes {
		p.asked, p.answers, p.took = 0, 0, p.took[:0]
		err = p.run(ctx, size)
		p.summary(size)
		if answers += p.answers; err != nil {
			return err
		}
	}
	stats := e.Adapter.Stats()
	fmt.Fprintf(stdout, "%d packets out, %d in, %d sent again\n", stats.PacketsOut, stats.PacketsIn, stats.Retransmits)
	if answers == 0 {
		return errSilent
	}
	return nil
}

// run asks with messages of one size.
func (p *pinger) run(ctx context.Context, size int) error {
	for due := time.Now(); ; {
		took, err := p.once(ctx, size)
		switch {
		case ctx.Err() != nil: // interrupted
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			fmt.Fprintf(p.each, "%d bytes, message %d: no answer in %v\n", size, p.number, p.o.patience)
		case err != nil:
			return err
		default:
			fmt.Fprintf(p.each, "%d bytes, message %d: %v\n", size, p.number, took)
		}
		if p.asked == p.o.count {
			return nil
		}
		due = due.Add(p.o.interval)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(due)):
		}
	}
}

// once sends a message and waits for it to come back. Answers to earlier ones, which were given up, are passed over.
func (p *pinger) once(ctx context.Context, size int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.patience)
	defer cancel()
	p.number++
	p.asked++
	sent := p.e.Memory.Bytes()[:size]
	for i := range sent {
		sent[i] = byte(p.number) + byte(i)
	}
	binary.BigEndian.PutUint64(sent, p.number)
	start := time.Now()
	err = p.e.QueuePair.Send(p.number, []nd.SGE{p.e.Memory.SGE(0, size)}, nd.OpSilentSuccess)
	for err == nil {
		var res nd.Result
		if res, err = next(ctx, p.e, p.o.poll); err != nil {
			break
		}
		took = time.Since(start)
		got := p.e.Memory.Bytes()[maxSize:][:res.Bytes]
		same := bytes.Equal(got, sent)
		if !same && (len(got) < minSize || binary.BigEndian.Uint64(got) >= p.number) {
			return 0, fmt.Errorf("message %d came back with %d other bytes", p.number, len(got))
		}
		if err = p.e.QueuePair.Receive(0, p.back); same {
			p.took = append(p.took[max(0, len(p.took)-maxSamples+1):], took)
			p.answers++
			break
		}
	}
	return took, err
}

// summary prints what ping does, and percentiles.
func (p *pinger) summary(size int) {
	fmt.Fprintf(p.out, "%d bytes: %d sent, %d answered, %.3g %% unanswered", size, p.asked, p.answers,
		100*float64(p.asked-p.answers)/float64(p.asked))
	if len(p.took) > 0 {
		slices.Sort(p.took)
		at := func(percent int) time.Duration { return p.took[percent*(len(p.took)-1)/100] }
		fmt.Fprintf(p.out, "; round trip min %v p50 %v p90 %v p99 %v max %v", at(0), at(50), at(90), at(99), at(100))
	}
	fmt.Fprintln(p.out)
}
