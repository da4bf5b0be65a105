package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
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
	number  uint64 // of the last message
	posted  bool   // a receive waits
	asked   int
	took    []time.Duration // of what was answered
	answers int
	out     io.Writer
}

// ping connects, asks and prints.
func ping(ctx context.Context, at netip.AddrPort, o *options, sizes []int, stdout io.Writer) (err error) {
	cfg := nd.EndpointConfig{Datapath: o.datapath, UDPPort: o.udpPort, MemoryBytes: 2 * maxSize}
	if o.from != "" {
		local, err := netip.ParseAddr(o.from)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		a, failed := nd.OpenAdapter(nd.AdapterConfig{Address: local, UDPPort: o.udpPort, Datapath: o.datapath})
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, a.Close()) }()
		cfg.Adapter = a
	}
	e, err := nd.Dial(ctx, at, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	fmt.Fprintf(stdout, "connected to %s, datapath %s\n", at, e.Adapter.Datapath().Datapath)
	answers := 0
	p := &pinger{e: e, o: o, out: stdout}
	for _, size := range sizes {
		p.asked, p.answers, p.took = 0, 0, p.took[:0]
		failed := p.run(ctx, size)
		p.summary(size)
		answers += p.answers
		if failed != nil {
			return failed
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
	due := time.Now()
	for p.o.count == 0 || p.asked < p.o.count {
		took, err := p.once(ctx, size)
		switch {
		case ctx.Err() != nil: // interrupted
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			p.say("%d bytes, message %d: no answer in %v\n", size, p.number, p.o.patience)
		case err != nil:
			return err
		default:
			p.say("%d bytes, message %d: %v\n", size, p.number, took)
		}
		due = due.Add(p.o.interval)
		if p.o.count != 0 && p.asked >= p.o.count {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(due)):
		}
	}
	return nil
}

func (p *pinger) say(format string, args ...any) {
	if !p.o.quiet {
		fmt.Fprintf(p.out, format, args...)
	}
}

// once sends a message and waits for it to come back. Answers to earlier ones, which were given up, are passed over.
func (p *pinger) once(ctx context.Context, size int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.patience)
	defer cancel()
	p.number++
	p.asked++
	sent, back := p.e.Memory.Bytes()[:size], p.e.Memory.Bytes()[maxSize:]
	for i := range sent {
		sent[i] = byte(p.number) + byte(i)
	}
	binary.BigEndian.PutUint64(sent, p.number)
	if err := p.receive(); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := p.e.QueuePair.Send(p.number, []nd.SGE{p.e.Memory.SGE(0, size)}, nd.OpSilentSuccess); err != nil {
		return 0, err
	}
	for {
		res, err := next(ctx, p.e, p.o.poll)
		took := time.Since(start)
		if err != nil {
			return took, err
		}
		p.posted = false
		got := back[:res.Bytes]
		if bytes.Equal(got, sent) {
			p.record(took)
			return took, nil
		}
		if len(got) < minSize || binary.BigEndian.Uint64(got) >= p.number {
			return took, fmt.Errorf("message %d came back with %d other bytes", p.number, len(got))
		}
		if err := p.receive(); err != nil {
			return took, err
		}
	}
}

func (p *pinger) receive() error {
	if p.posted {
		return nil
	}
	p.posted = true
	return p.e.QueuePair.Receive(0, []nd.SGE{p.e.Memory.SGE(maxSize, maxSize)})
}

func (p *pinger) record(took time.Duration) {
	if len(p.took) < maxSamples {
		p.took = append(p.took, took)
	} else {
		p.took[p.answers%maxSamples] = took
	}
	p.answers++
}

// summary prints what ping does, and percentiles.
func (p *pinger) summary(size int) {
	if p.asked == 0 {
		return
	}
	fmt.Fprintf(p.out, "%d bytes: %d sent, %d answered, %.3g %% unanswered", size, p.asked, p.answers,
		100*float64(p.asked-p.answers)/float64(p.asked))
	if len(p.took) > 0 {
		slices.Sort(p.took)
		fmt.Fprint(p.out, "; round trip")
		for _, q := range []struct {
			name string
			at   float64
		}{{"min", 0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}} {
			fmt.Fprintf(p.out, " %s %v", q.name, p.took[int(q.at*float64(len(p.took)-1))])
		}
	}
	fmt.Fprintln(p.out)
}
