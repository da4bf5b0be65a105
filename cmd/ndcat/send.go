package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
)

// sender is the state of the sending side.
type sender struct {
	e           *nd.Endpoint
	byMessage   bool
	sum         hash.Hash
	total       uint64
	chunks      int // posted chunks
	sent, taken int // of these, completed and acknowledged chunks
	verdict     byte
}

// send sends everything from in, and waits for the receiver's answer.
func send(ctx context.Context, o *options, in io.Reader, size int64, stderr io.Writer) (err error) {
	e, hangUp, err := o.net.Dial(ctx, nd.EndpointConfig{MemoryBytes: acks + slots*ackLen})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hangUp()) }()
	if !o.send && e.Peer.Length < slots*slotLen {
		return fmt.Errorf("%s offers %d bytes of memory, fewer than ndcat does: connect to a listening ndcat", o.net.At, e.Peer.Length)
	}
	s := &sender{e: e, byMessage: o.send, sum: sha256.New()}
	for slot := range slots {
		if err := s.awaitAck(slot); err != nil {
			return err
		}
	}
	begin := time.Now()
	bar := cli.NewTransfer(stderr, size)
	defer bar.Finish()
	connected, end := untilGone(ctx, e)
	defer end()
	ahead := readAhead(connected, in)
	for {
		buf, err := s.slot(ctx)
		if err != nil {
			return err
		}
		n, failed := ahead.fill(connected, buf)
		if n > 0 {
			s.sum.Write(buf[:n])
			s.total += uint64(n)
			if err := s.post(kindData, n); err != nil {
				return err
			}
			bar.Add(n)
		}
		switch {
		case failed == nil:
		case errors.Is(failed, io.EOF):
			if err := s.end(ctx); err != nil {
				return err
			}
			bar.Finish()
			told(stderr, o, done{"done", "sender", s.total, time.Since(begin).Seconds(), hex.EncodeToString(s.sum.Sum(nil)), e.Adapter.Datapath().Datapath.String()})
			return nil
		case errors.Is(failed, errGone) && ctx.Err() == nil:
			return s.drain(ctx)
		default:
			return failed
		}
	}
}

// slot waits until the next slot is free on both sides, and returns its memory for a chunk.
func (s *sender) slot(ctx context.Context) ([]byte, error) {
	for s.chunks-min(s.sent, s.taken) >= slots {
		if err := s.result(ctx); err != nil {
			return nil, err
		}
	}
	return s.e.Memory.Bytes()[s.chunks%slots*slotLen+headerLen:][:chunk], nil
}

// post sends the slot with n bytes.
func (s *sender) post(kind byte, n int) error {
	at := s.chunks % slots * slotLen
	header := s.e.Memory.Bytes()[at:][:headerLen]
	binary.BigEndian.PutUint32(header, uint32(kind)<<24) // followed by three zero bytes
	binary.BigEndian.PutUint32(header[4:], uint32(n))
	s.chunks++
	if s.byMessage || kind == kindEnd {
		return s.e.QueuePair.Send(0, []nd.SGE{s.e.Memory.SGE(at, headerLen+n)}, 0)
	}
	// The Write is placed before the receiver's receive completes.
	err := s.e.QueuePair.Write(0, []nd.SGE{s.e.Memory.SGE(at+headerLen, n)}, s.e.Peer.Address+uint64(at+headerLen), s.e.Peer.Token,
		nd.OpSilentSuccess|nd.OpDefer)
	if err != nil {
		return err
	}
	return s.e.QueuePair.Send(0, []nd.SGE{s.e.Memory.SGE(at, headerLen)}, 0)
}

func (s *sender) awaitAck(slot int) error {
	return s.e.QueuePair.Receive(uint64(slot), []nd.SGE{s.e.Memory.SGE(acks+slot*ackLen, ackLen)})
}

// result waits for one completion and handles it.
func (s *sender) result(ctx context.Context) error {
	res, err := s.e.Result(ctx)
	switch {
	case err != nil:
		return err
	case res.Type == nd.RequestSend:
		s.sent++
		return nil
	}
	s.taken++
	if res.Bytes == 0 {
		return errors.New("the peer sent an empty answer, which ndcat never sends: connect to a listening ndcat")
	}
	answer := s.e.Memory.Bytes()[acks+int(res.RequestID)*ackLen:][:res.Bytes]
	if s.verdict = answer[0]; s.verdict == ackWhy {
		return fmt.Errorf("the receiver could not write the received bytes: %s", cli.Printable(string(answer[1:])))
	}
	return s.awaitAck(int(res.RequestID))
}

// drain handles completions until one tells why the connection ended.
func (s *sender) drain(ctx context.Context) error {
	for {
		if err := s.result(ctx); err != nil {
			return err
		}
	}
}

// end sends the length and the hash, and waits for the answer.
func (s *sender) end(ctx context.Context) error {
	buf, err := s.slot(ctx)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint64(buf, s.total)
	s.sum.Sum(buf[8:8])
	if err := s.post(kindEnd, 8+sha256.Size); err != nil {
		return err
	}
	for s.taken < s.chunks {
		if err := s.result(ctx); err != nil {
			return err
		}
	}
	if s.verdict != ackSame {
		return fmt.Errorf("what arrived is not what was sent: %d bytes", s.total)
	}
	return s.e.Connector.Disconnect(ctx)
}
