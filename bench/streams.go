package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// load is a set of streams beside a test, on other connections of the same adapter: 1 MiB Writes, with as many outstanding as in a
// test of bandwidth.
type load struct {
	streams []*requester
	ended   chan streamEnd
}

type streamEnd struct {
	result *Result
	err    error
}

// streamLongest bounds how much longer a stream runs than its test. It is cut when the test ends.
const streamLongest = time.Minute

// startLoad starts the streams and returns when each of them is being measured. A stream that fails cancels the test.
func startLoad(ctx context.Context, streams []*requester, beside Spec, cancel context.CancelCauseFunc) (*load, error) {
	l := &load{streams: streams, ended: make(chan streamEnd, len(streams))}
	s := Spec{Test: WriteBW, Duration: 2*beside.Duration + streamLongest, Verify: beside.Verify, Event: beside.Event, MTU: beside.MTU}.WithDefaults()
	for _, q := range streams {
		q.cut.Store(false)
		q.teller = newTeller()
		go func() {
			r, err := q.run(ctx, s)
			if err != nil {
				cancel(fmt.Errorf("stream beside %s: %w", beside, err))
			}
			l.ended <- streamEnd{r, err}
		}()
	}
	for _, q := range streams {
		select {
		case <-q.teller.began:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), l.stop(nil))
		}
	}
	return l, nil
}

// stop cuts the streams and adds their rate to the result of the test.
func (l *load) stop(of *Result) (err error) {
	for _, q := range l.streams {
		q.cut.Store(true)
	}
	for range l.streams {
		e := <-l.ended
		if err = errors.Join(err, e.err); e.err == nil && of != nil {
			of.Streams++
			of.StreamGbps += e.result.Gbps
			of.Verified = of.Verified && e.result.Verified
		}
	}
	return err
}
