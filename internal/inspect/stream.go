package inspect

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/internal/repeat"
)

// stream captures until the client ends it, leaves or stalls, or until the requested number of packets. It then sends an End. The
// adapter's capture has ended when it returns.
func (s *Server) stream(c net.Conn, q Request) {
	head := s.head()
	tap, err := s.adapter.Capture(q.Capture.SnapLength)
	if err != nil {
		head.Error = err.Error()
		_ = json.NewEncoder(c).Encode(head) // the connection ends in any case
		return
	}
	defer tap.Stop()
	head.Streams = true
	if json.NewEncoder(c).Encode(s.adapter.Answer(head, q)) != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{}) // a client sends nothing until the end
	s.done.Go(func() {                 // until either side closes the connection
		_, _ = io.Copy(io.Discard, c) // the result does not matter
		tap.Stop()
	})
	if s.blocks(c, tap, q.Capture.MaxPackets) != nil {
		return
	}
	tap.Stop()
	_ = c.SetWriteDeadline(time.Now().Add(ReplyTimeout)) // otherwise the client notices that the End is missing
	if _, err := c.Write(make([]byte, BlockHeader)); err == nil {
		_ = json.NewEncoder(c).Encode(End{Lost: tap.Lost()}) // as above
	}
}

// blocks sends packets until the capture ends, or until most packets were sent, unless most is 0.
func (s *Server) blocks(c net.Conn, tap Capture, most uint64) error {
	w := &blockWriter{to: c, stall: s.stall, block: make([]byte, BlockHeader, blockBytes+maxRecord)}
	defer repeat.Every(flushEvery, func() {
		if w.flush() != nil {
			tap.Stop()
		}
	})()
	var record []byte
	for n := uint64(0); most == 0 || n < most; n++ {
		var err error
		if record, err = tap.Next(record[:0]); err != nil {
			break
		}
		if err := w.add(record); err != nil {
			return err
		}
	}
	return w.flush()
}

// blockWriter collects records into blocks. flush sends an incomplete block, so that a user sees packets soon after they arrived.
type blockWriter struct {
	to    net.Conn
	stall time.Duration

	mu    sync.Mutex
	block []byte // begins with room for its header; guarded by mu
}

func (w *blockWriter) add(record []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.block = append(w.block, record...); len(w.block) < blockBytes {
		return nil
	}
	return w.send()
}

func (w *blockWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.block) == BlockHeader {
		return nil
	}
	return w.send()
}

// send sends the block. The caller holds mu. Write fails if the connection is closed.
func (w *blockWriter) send() error {
	binary.BigEndian.PutUint32(w.block, uint32(len(w.block)-BlockHeader))
	_ = w.to.SetWriteDeadline(time.Now().Add(w.stall))
	_, err := w.to.Write(w.block)
	w.block = w.block[:BlockHeader]
	return err
}
