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

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
)

// minSize is the size of a message number.
const minSize = 8

// maxSamples bounds the memory of an endless run. Percentiles then cover the latest samples.
const maxSamples = 1 << 20

// reconnectAfter is the pause after a failed attempt to connect.
const reconnectAfter = 500 * time.Millisecond

// pinger is the side that sends pings.
type pinger struct {
	e       *nd.Endpoint
	hangUp  func() error // ends the connection; nil if there is none
	o       *options
	back    []nd.SGE // memory for answers; one receive is posted
	number  uint64   // number of the last message
	asked   int
	answers int
	took    []time.Duration // round trips of answered messages
	packets nd.Stats        // of connections that have ended: PacketsOut, PacketsIn and Retransmits
	out     cli.Events
	each    cli.Events // lines about single messages
}

// ping connects, sends messages and prints results.
func ping(ctx context.Context, o *options, sizes []int, stdout io.Writer) error {
	p := &pinger{o: o, out: cli.Events{To: stdout, JSON: o.json}, each: cli.Events{To: stdout, JSON: o.json}}
	if o.quiet {
		p.each.To = io.Discard
	}
	if err := p.connect(ctx); err != nil {
		return err
	}
	answers, err := 0, error(nil)
	for _, size := range sizes {
		p.asked, p.answers, p.took = 0, 0, p.took[:0]
		err = p.run(ctx, size)
		p.summary(size)
		if answers += p.answers; err != nil {
			break
		}
	}
	err = errors.Join(err, p.leave())
	s := &p.packets
	p.out.Say(event{Event: "packets", Traffic: &Traffic{s.Packets.Out, s.Packets.In, s.Recovery.Retransmits}},
		"%d packets out, %d in, %d sent again", s.Packets.Out, s.Packets.In, s.Recovery.Retransmits)
	if err == nil && answers == 0 {
		return errSilent
	}
	return err
}

// leave ends the connection, if any, and adds its packets to the totals.
func (p *pinger) leave() error {
	if p.hangUp == nil {
		return nil
	}
	stats, hangUp := p.e.Adapter.Stats(), p.hangUp
	p.packets.Packets.Out += stats.Packets.Out
	p.packets.Packets.In += stats.Packets.In
	p.packets.Recovery.Retransmits += stats.Recovery.Retransmits
	p.hangUp = nil
	return hangUp()
}

// connect connects, repeatedly with --reconnect.
func (p *pinger) connect(ctx context.Context) (err error) {
	for {
		p.e, p.hangUp, err = p.o.net.Dial(ctx, nd.EndpointConfig{MemoryBytes: 2 * maxSize})
		if err == nil {
			break
		}
		if !p.o.reconnect || ctx.Err() != nil || !again(err) {
			return err
		}
		p.out.Say(event{Event: "lost", Address: p.o.net.At.String(), Error: cli.OneLine(err)}, "%s", cli.OneLine(err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(reconnectAfter):
		}
	}
	by := p.e.Adapter.Datapath()
	p.out.Say(event{Event: "connected", Address: p.o.net.At.String(), Datapath: by.Datapath.String()}, "connected to %s, %s", p.o.net.At, cli.Datapath(by))
	p.back = []nd.SGE{p.e.Memory.SGE(maxSize, maxSize)}
	return p.e.QueuePair.Receive(0, p.back)
}

// again reports whether another attempt may succeed: the error is about the peer or the route, not about this machine.
func again(err error) bool {
	for _, s := range []nd.Status{
		nd.ErrConnectionRefused, nd.ErrIOTimeout, nd.ErrHostUnreachable, nd.ErrNetworkUnreachable, nd.ErrConnectionAborted, nd.ErrCanceled, nd.ErrRemoteError,
	} {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

// run sends messages of one size.
func (p *pinger) run(ctx context.Context, size int) error {
	for due := time.Now(); ; {
		took, err := p.once(ctx, size)
		switch {
		case ctx.Err() != nil: // interrupted
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			p.each.Say(event{Event: "timeout", Bytes: size, Message: p.number, US: cli.Microseconds(p.o.patience)},
				"%d bytes, message %d: no answer in %v", size, p.number, p.o.patience)
		case err != nil && p.o.reconnect && again(err):
			p.out.Say(event{Event: "lost", Bytes: size, Message: p.number, Error: cli.OneLine(err)}, "%d bytes, message %d: %s", size, p.number, cli.OneLine(err))
			_ = p.leave() // the connection is lost
			if err := p.connect(ctx); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			p.each.Say(event{Event: "answer", Bytes: size, Message: p.number, US: cli.Microseconds(took)}, "%d bytes, message %d: %v", size, p.number, took)
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

// once sends a message and waits for its answer. It ignores late answers to earlier messages.
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
			return 0, fmt.Errorf("message %d came back with %d wrong bytes", p.number, len(got))
		}
		if err = p.e.QueuePair.Receive(0, p.back); same {
			p.took = append(p.took[max(0, len(p.took)-maxSamples+1):], took)
			p.answers++
			break
		}
	}
	return took, err
}

// summary prints counts as ping does, and percentiles.
func (p *pinger) summary(size int) {
	line := fmt.Sprintf("%d bytes: %d sent, %d answered, %.3g %% unanswered", size, p.asked, p.answers,
		100*float64(p.asked-p.answers)/float64(p.asked))
	all := event{Event: "summary", Bytes: size, Counts: &Counts{p.asked, p.answers}}
	if len(p.took) > 0 {
		slices.Sort(p.took)
		at := func(percent int) time.Duration { return p.took[percent*(len(p.took)-1)/100] }
		line += fmt.Sprintf("; round trip min %v p50 %v p90 %v p99 %v max %v", at(0), at(50), at(90), at(99), at(100))
		us := func(percent int) float64 { return cli.Microseconds(at(percent)) }
		all.Trips = &Trips{us(0), us(50), us(90), us(99), us(100)}
	}
	p.out.Say(all, "%s", line)
}
