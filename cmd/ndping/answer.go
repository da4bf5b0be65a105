package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
)

// slots is the number of messages of one peer that are received or sent back at once. An abandoned message may still be in flight.
const slots = 4

// answer sends messages back to every peer that connects, until ctx ends.
func answer(ctx context.Context, o *options, stdout io.Writer) error {
	l, err := o.net.Listen(nd.EndpointConfig{MemoryBytes: slots * maxSize})
	if err != nil {
		return err
	}
	at, err := l.Address()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	var peers sync.WaitGroup
	out, by := cli.Events{To: stdout, JSON: o.json}, l.Adapter.Datapath()
	out.Say(event{Event: "answering", Address: at.String(), Datapath: by.Datapath.String()}, "answering at %s, %s", at, cli.Datapath(by))
	for {
		e, err := l.Accept(ctx)
		switch {
		case ctx.Err() != nil:
			peers.Wait()
			return l.Close()
		case errors.Is(err, nd.ErrDeviceRemoved):
			return errors.Join(err, l.Close())
		case err != nil: // an error of one peer
			out.Say(event{Event: "lost", Error: cli.OneLine(err)}, "%v", err)
			continue
		}
		peers.Go(func() {
			peer, _ := e.Connector.PeerAddress() // invalid if the peer has gone
			out.Say(event{Event: "peer", Address: peer.String()}, "%s connected", peer)
			n, err := echo(ctx, e, o.poll)
			left, line := event{Event: "left", Address: peer.String(), Counts: &Counts{Answered: n}}, fmt.Sprintf("%s left after %d messages", peer, n)
			if err := errors.Join(err, e.Close()); err != nil {
				left.Error = cli.OneLine(err)
				line += ": " + left.Error
			}
			out.Say(left, "%s", line)
		})
	}
}

// echo sends every message back until the peer leaves. Each slot is either receiving or sending.
func echo(ctx context.Context, e *nd.Endpoint, poll bool) (messages int, err error) {
	for slot := 0; slot < slots && err == nil; slot++ {
		err = e.QueuePair.Receive(uint64(slot), []nd.SGE{e.Memory.SGE(slot*maxSize, maxSize)})
	}
	for err == nil {
		var res nd.Result
		if res, err = next(ctx, e, poll); err != nil {
			if ctx.Err() != nil || errors.Is(err, nd.ErrCanceled) {
				err = nil // the peer left
			}
			return messages, err
		}
		at := int(res.RequestID) * maxSize
		if res.Type == nd.RequestReceive {
			messages++
			err = e.QueuePair.Send(res.RequestID, []nd.SGE{e.Memory.SGE(at, int(res.Bytes))}, 0)
		} else {
			err = e.QueuePair.Receive(res.RequestID, []nd.SGE{e.Memory.SGE(at, maxSize)})
		}
	}
	return messages, err
}

// lookEvery is the number of empty polls after which a poller checks whether the connection is alive.
const lookEvery = 1 << 10

// next waits for the next result of an endpoint, by polling or sleeping.
func next(ctx context.Context, e *nd.Endpoint, poll bool) (nd.Result, error) {
	for n := 1; poll && ctx.Err() == nil && (n%lookEvery != 0 || e.Connector.Cause() == nd.CauseNone); n++ {
		var res [1]nd.Result
		if e.Queue.GetResults(res[:]) == 1 {
			if s := res[0].Status; s != nd.StatusSuccess {
				return res[0], &nd.Error{Op: res[0].Type.String(), Status: s}
			}
			return res[0], nil
		}
	}
	return e.Result(ctx)
}
