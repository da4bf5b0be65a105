package ndcapture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ndxdp/ndxdp/internal/repeat"
	"github.com/ndxdp/ndxdp/nd"
)

// Config limits a recording. The zero value captures and writes everything.
type Config struct {
	nd.CaptureConfig
	// MaxBytes is the largest size of the output; 0 is no limit. Packets beyond it are counted as Skipped.
	MaxBytes int64
	// MaxPackets ends the recording and the capture after this many packets; 0 is no limit.
	MaxPackets uint64
}

// Summary is the result of a recording.
type Summary struct {
	Written uint64 `json:"written"`
	Lost    uint64 `json:"lost"`    // packets lost because writing was too slow
	Skipped uint64 `json:"skipped"` // packets beyond Config.MaxBytes, or after writing failed
	Bytes   int64  `json:"bytes"`   // size of the file, or of this section of it
}

// Source is a source of packets: an nd.Capture, or a capture in another process.
type Source interface {
	// Next describes the next packet. It returns io.EOF at the end.
	Next(*nd.CapturedPacket) error
	// Lost returns the number of packets lost so far.
	Lost() uint64
	// Stop ends the capture. It may be called again.
	Stop()
}

// Recording writes an adapter's packets to a file, in a goroutine.
type Recording struct {
	capture *nd.Capture
	done    chan struct{}

	// Owned by the goroutine until done is closed.
	sum Summary
	err error
}

// bufferBytes is the size of a write to the file.
const bufferBytes = 1 << 18

// recordOverhead is the largest size of a packet's record without its frame: the block, its options and the comment.
const recordOverhead = 256

// Start starts to write the packets of an adapter to w as pcapng, until Stop. Meanwhile nothing else may write to w. A file may
// have several recordings as successive sections.
//
// Errors: the errors of nd.Adapter.StartCapture, and nd.ErrInvalidParameter if a or w is nil. Stop returns the errors of w.
func Start(a *nd.Adapter, w io.Writer, cfg Config) (*Recording, error) {
	if a == nil || w == nil {
		return nil, fmt.Errorf("ndcapture: start: no adapter or no writer: %w", nd.ErrInvalidParameter)
	}
	c, err := a.StartCapture(cfg.CaptureConfig)
	if err != nil {
		return nil, err
	}
	r := &Recording{capture: c, done: make(chan struct{})}
	info := a.Datapath()
	go func() {
		defer close(r.done)
		r.sum, r.err = Copy(w, info, c, cfg)
	}()
	return r, nil
}

// Copy writes packets from a source to w as pcapng, until the source ends, cfg.MaxPackets are written, or w fails. It then stops
// the source. info describes the adapter of the packets. cfg.SnapLength is the length to which they were truncated.
//
// Errors: the errors of w and from, except io.EOF, and nd.ErrInvalidParameter if w or from is nil.
func Copy(w io.Writer, info nd.DatapathInfo, from Source, cfg Config) (sum Summary, err error) {
	if w == nil || from == nil {
		return sum, fmt.Errorf("ndcapture: copy: no writer or no source: %w", nd.ErrInvalidParameter)
	}
	defer from.Stop()
	out := newSink(w, info, cfg)
	endFlushes := repeat.Every(flushEvery, func() {
		if out.flush() != nil {
			from.Stop()
		}
	})
	var p nd.CapturedPacket
	for err = from.Next(&p); err == nil; err = from.Next(&p) {
		written, failed := out.write(&p)
		if !written {
			sum.Skipped++
		} else if sum.Written++; sum.Written == cfg.MaxPackets {
			from.Stop()
			break
		}
		if failed != nil {
			from.Stop() // the remaining packets are skipped
		}
	}
	endFlushes()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	failed := out.finish(sum.Written, from.Lost())
	sum.Lost, sum.Bytes = from.Lost(), out.to.n
	return sum, errors.Join(failed, err)
}

// flushEvery is the longest time that packets wait for the buffer to fill, because a user may be watching.
const flushEvery = 100 * time.Millisecond

// sink is the output of a recording, packet by packet.
type sink struct {
	mu       sync.Mutex
	to       *counter      // the writer of the caller
	buffer   *bufio.Writer // in front of it
	section  *writer       // in front of buffer
	maxBytes int64
	failed   error
}

func newSink(w io.Writer, info nd.DatapathInfo, cfg Config) *sink {
	s := &sink{to: &counter{to: w}, maxBytes: cfg.MaxBytes}
	s.buffer = bufio.NewWriterSize(s.to, bufferBytes)
	s.section, s.failed = newWriter(s.buffer, info, cfg.SnapLength)
	return s
}

// write writes a packet, unless the file would exceed MaxBytes or an earlier write failed.
func (s *sink) write(p *nd.CapturedPacket) (written bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := s.to.n + int64(s.buffer.Buffered()+len(p.Frame)+recordOverhead)
	if s.failed != nil || s.maxBytes > 0 && size > s.maxBytes {
		return false, s.failed
	}
	s.failed = s.section.write(p)
	return s.failed == nil, s.failed
}

// flush writes buffered data.
func (s *sink) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = s.buffer.Flush()
	}
	return s.failed
}

// finish writes the end of a section.
func (s *sink) finish(written, lost uint64) error {
	if s.failed == nil {
		s.failed = errors.Join(s.section.finish(written, lost), s.buffer.Flush())
	}
	return s.failed
}

// Done returns a channel that is closed when the recording has ended: by Stop, the adapter's Close, Config.MaxPackets, or an error
// of the writer. Stop then returns the result.
func (r *Recording) Done() <-chan struct{} { return r.done }

// Stop ends the recording, writes all captured packets, and returns the result. It may be called again, and after the adapter was
// closed. The error is the writer's.
func (r *Recording) Stop() (Summary, error) {
	r.capture.Stop()
	<-r.done
	return r.sum, r.err
}

// counter counts the bytes written to a writer.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
