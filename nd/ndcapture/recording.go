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

// Config says what is captured, and how much of it is written. Its zero value writes everything.
type Config struct {
	nd.CaptureConfig
	// MaxBytes ends the writing before it exceeds so many bytes; 0 is no bound. Packets after that are counted as Skipped.
	MaxBytes int64
	// MaxPackets ends the recording, and with it the capture, when so many packets are written; 0 is no bound.
	MaxPackets uint64
}

// Summary says what became of the packets of a recording.
type Summary struct {
	Written uint64 `json:"written"`
	Lost    uint64 `json:"lost"`    // came faster than they could be written
	Skipped uint64 `json:"skipped"` // beyond Config.MaxBytes, or after writing failed
	Bytes   int64  `json:"bytes"`   // of the file, or of this section of it
}

// Source is where packets come from: an nd.Capture, or what stands for one in another process.
type Source interface {
	// Next describes the next packet, until the source has no more, which is io.EOF, or fails.
	Next(*nd.CapturedPacket) error
	// Lost is how many packets found no room so far.
	Lost() uint64
	// Stop ends the capture. It may be called again.
	Stop()
}

// Recording writes an adapter's packets to a file from a goroutine of its own.
type Recording struct {
	capture *nd.Capture
	done    chan struct{}

	// The goroutine's until done is closed.
	sum Summary
	err error
}

// bufferBytes is how much goes to the file at once.
const bufferBytes = 1 << 18

// recordOverhead is the most a packet takes in the file beside its frame: the block, its options and the comment.
const recordOverhead = 256

// Start begins to write the packets of an adapter to w as pcapng, until Stop. Nobody else may write to w meanwhile. What was there
// before stays: sections of several recordings may follow each other in a file.
//
// Errors: those of nd.Adapter.StartCapture; nd.ErrInvalidParameter when a or w is nil. Those of w are Stop's.
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

// Copy writes packets from a source to w as pcapng until the source has no more, there are cfg.MaxPackets, or w fails; then it stops the source. info is of the adapter whose packets they are; of
// cfg, SnapLength says how they were cut.
//
// Errors: those of w, and of the source but for io.EOF; nd.ErrInvalidParameter when w or from is nil.
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
			from.Stop() // what it still has is skipped
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

// flushEvery is how long packets wait at the most before they are written, where they are too few to fill the buffer: somebody may look on.
const flushEvery = 100 * time.Millisecond

// sink is the file of a capture. Packets go to it one by one, and as a whole.
type sink struct {
	mu       sync.Mutex
	to       *counter      // the writer that we were given
	buffer   *bufio.Writer // before it
	section  *writer       // before that, with a buffer of its own
	maxBytes int64
	failed   error
}

func newSink(w io.Writer, info nd.DatapathInfo, cfg Config) *sink {
	s := &sink{to: &counter{to: w}, maxBytes: cfg.MaxBytes}
	s.buffer = bufio.NewWriterSize(s.to, bufferBytes)
	s.section, s.failed = newWriter(s.buffer, info, cfg.SnapLength)
	return s
}

// write writes a packet, unless the file would grow too large, or something failed already.
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

// flush writes what is buffered.
func (s *sink) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = errors.Join(s.section.ng.Flush(), s.buffer.Flush())
	}
	return s.failed
}

// finish writes what a section ends with.
func (s *sink) finish(written, lost uint64) error {
	if s.failed == nil {
		s.failed = errors.Join(s.section.finish(written, lost), s.buffer.Flush())
	}
	return s.failed
}

// Done is closed when the recording ended: by Stop, the adapter's Close, Config.MaxPackets, or a writer that fails. Stop then tells what became of it.
func (r *Recording) Done() <-chan struct{} { return r.done }

// Stop ends the recording, writes what was captured until then, and says what became of it. It may be called again, and after the
// adapter was closed. The error is that of the writer.
func (r *Recording) Stop() (Summary, error) {
	r.capture.Stop()
	<-r.done
	return r.sum, r.err
}

// counter counts what goes to a writer.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
