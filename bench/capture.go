package bench

import (
	"errors"
	"fmt"
	"os"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndcapture"
)

// Captured is the result of capturing the packets of one side of a job. A capture changes the figures of a run, because every
// packet is copied.
type Captured struct {
	File string `json:"file"`
	ndcapture.Summary
}

// String describes the result for users.
func (c Captured) String() string {
	return fmt.Sprintf("capture %s: %d packets, %d lost, %d skipped", c.File, c.Written, c.Lost, c.Skipped)
}

// maxCapture is the largest size of one job's captured packets in a file: 1 GiB.
const maxCapture = 1 << 30

// recording is a capture to a file.
type recording struct {
	file *os.File
	rec  *ndcapture.Recording
}

// record begins to capture an adapter's packets, appending to the file. It does nothing if path is empty.
func record(a *nd.Adapter, path string, snap int) (*recording, error) {
	if path == "" {
		return &recording{}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cfg := ndcapture.Config{CaptureConfig: nd.CaptureConfig{SnapLength: snap}, MaxBytes: maxCapture}
	rec, err := ndcapture.Start(a, file, cfg)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &recording{file, rec}, nil
}

// stop ends the capture and reports its result.
func (r *recording) stop(tell func(Captured)) error {
	if r.rec == nil {
		return nil
	}
	sum, err := r.rec.Stop()
	tell(Captured{r.file.Name(), sum})
	return errors.Join(err, r.file.Close())
}
