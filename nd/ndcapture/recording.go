package ndcapture

import (
	"bufio"
	"errors"
	"fmt"
	"io"

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

// Recording writes an adapter's packets to a file from a goroutine of its own.
type Recording struct {
	capture *nd.Capture
	out     *counter
	limit   int64
	packets uint64 // bound of, 0 for none
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
// Errors: those of nd.Adapter.StartCapture, and of w; nd.ErrInvalidParameter when a or w is nil.
func Start(a *nd.Adapter, w io.Writer, cfg Config) (*Recording, error) {
	if a == nil || w == nil {
		return nil, fmt.Errorf("ndcapture: start: no adapter or no writer: %w", nd.ErrInvalidParameter)
	}
	out := &counter{to: w}
	info := a.Datapath()
	file := bufio.NewWriterSize(out, bufferBytes)
	section, err := newWriter(file, info, cfg.SnapLength)
	if err != nil {
		return nil, err
	}
	c, err := a.StartCapture(cfg.CaptureConfig)
	if err != nil {
		return nil, err
	}
	r := &Recording{capture: c, out: out, limit: cfg.MaxBytes, packets: cfg.MaxPackets, done: make(chan struct{})}
	go r.run(section, file)
	return r, nil
}

// run writes until the capture ends.
func (r *Recording) run(section *writer, file *bufio.Writer) {
	defer close(r.done)
	var p nd.CapturedPacket
	for r.capture.Next(&p) == nil {
		size := r.out.n + int64(file.Buffered()+len(p.Frame)+recordOverhead)
		if r.err != nil || r.limit > 0 && size > r.limit {
			r.sum.Skipped++
			continue
		}
		if r.err = section.write(&p); r.err != nil {
			r.sum.Skipped++
			continue
		}
		if r.sum.Written++; r.sum.Written == r.packets {
			r.capture.Stop()
			break
		}
	}
	r.err = errors.Join(r.err, section.finish(r.sum.Written, r.capture.Lost()), file.Flush())
}

// Done is closed when the recording ended: by Stop, the adapter's Close, or Config.MaxPackets. Stop then tells what became of it.
func (r *Recording) Done() <-chan struct{} { return r.done }

// Stop ends the recording, writes what was captured until then, and says what became of it. It may be called again, and after the
// adapter was closed. The error is that of the writer.
func (r *Recording) Stop() (Summary, error) {
	r.capture.Stop()
	<-r.done
	s := r.sum
	s.Lost, s.Bytes = r.capture.Lost(), r.out.n
	return s, r.err
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
