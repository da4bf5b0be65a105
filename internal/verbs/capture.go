package verbs

import (
	"errors"
	"time"

	"github.com/ndxdp/ndxdp/internal/capture"
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
)

// ErrCapturing says that another capture of the adapter's packets is running: an engine has one tap.
var ErrCapturing = errors.New("a capture of this adapter is running, and only one at a time is possible: end it first")

// StartCapture taps all engines until stop is called. stop may be called twice. It uses Snap and Bytes of cfg.
func (a *Adapter) StartCapture(cfg capture.Config) (feed *capture.Feed, stop func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.capturing != nil {
		return nil, nil, ErrCapturing
	}
	if a.Device != nil {
		cfg.MAC = a.Device.Info().MAC
	}
	cfg.Origin, cfg.Epoch = clock.Machine(), time.Now()
	feed = capture.NewFeed(cfg, len(a.Shards))
	a.capturing = feed
	for i, s := range a.Shards {
		s.Do(func(e *provider.Engine) { e.SetTap(feed.Tap(i)) })
	}
	return feed, func() { a.stopCapture(feed) }, nil
}

// Capturing reports whether the engines are tapped. Any goroutine may call it.
func (a *Adapter) Capturing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.capturing != nil
}

func (a *Adapter) stopCapture(feed *capture.Feed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.capturing != feed {
		return
	}
	a.capturing = nil
	for _, s := range a.Shards {
		s.Do(func(e *provider.Engine) { e.SetTap(nil) })
	}
}
