package inspect

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"time"
)

// stream captures until the client ends it, goes away or stalls, or has as much as it wanted, and then tells it what became of
// the packets. The adapter has no tap any more when it returns.
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
	_ = c.SetReadDeadline(time.Time{}) // a client says nothing until the end
	s.done.Go(func() {                 // until the connection is closed, by either side
		_, _ = io.Copy(io.Discard, c) // however it ends
		tap.Stop()
	})
	if s.blocks(c, tap, q.Capture.MaxPackets) != nil {
		return
	}
	tap.Stop()
	_ = c.SetWriteDeadline(time.Now().Add(ReplyTimeout)) // the client notices that the end is missing
	if _, err := c.Write(make([]byte, BlockHeader)); err == nil {
		_ = json.NewEncoder(c).Encode(End{Lost: tap.Lost()}) // as above
	}
}

// blocks sends packets until the capture ends, or there were most of them, unless that is 0.
func (s *Server) blocks(c net.Conn, tap Capture, most uint64) error {
	b := make([]byte, BlockHeader, blockBytes+maxRecord)
	send := func() error {
		binary.BigEndian.PutUint32(b, uint32(len(b)-BlockHeader))
		_ = c.SetWriteDeadline(time.Now().Add(s.stall)) // a closed connection shows below
		_, err := c.Write(b)
		b = b[:BlockHeader]
		return err
	}
	for n := uint64(0); most == 0 || n < most; n++ {
		var err error
		if b, err = tap.Next(b); err != nil {
			break
		}
		if len(b) >= blockBytes {
			if err := send(); err != nil {
				return err
			}
		}
	}
	if len(b) > BlockHeader {
		return send()
	}
	return nil
}
