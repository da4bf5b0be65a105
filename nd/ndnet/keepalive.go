package ndnet

import (
	"errors"
	"math"
	"net"
	"syscall"
	"time"
)

// keepAlive makes an idle connection send messages, so that a dead peer is noticed. Without it the transport sends a keep-alive after ten
// seconds, and waits for the adapter's PeerTimeout.
type keepAlive struct {
	timer    *time.Timer
	idle     time.Duration
	patience time.Duration // how long a message may stay unacknowledged
	seen     uint          // number of messages sent at the last check
	arrived  uint          // number of messages acknowledged at the last check
	since    time.Time     // when messages became unacknowledged without progress; else zero
}

func (k *keepAlive) stop() {
	if k != nil {
		k.timer.Stop()
	}
}

// The defaults are those of package net.
const (
	defaultKeepAlive      = 15 * time.Second // idle time and interval
	defaultKeepAliveCount = 9
)

// transportAsks is the idle time after which the transport itself sends a keep-alive (PROTOCOL §9.5).
const transportAsks = 10 * time.Second

// keepAliveOf returns the configuration that a Dialer or ListenConfig with these fields uses, as in package net.
func keepAliveOf(idle time.Duration, k net.KeepAliveConfig) net.KeepAliveConfig {
	if !k.Enable && idle >= 0 {
		return net.KeepAliveConfig{Enable: true, Idle: idle}
	}
	return k
}

var errKeepAlive = errors.New("the peer did not acknowledge the keep-alives in time")

// SetKeepAlive turns keep-alives of an idle connection on, one each 15 s, or off. The transport sends its own keep-alives in any case: each
// 10 s with fewer than 10,000 connections.
func (c *Conn) SetKeepAlive(on bool) error {
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: on})
}

// SetKeepAlivePeriod sets the idle time before a keep-alive.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: d})
}

// SetKeepAliveConfig sends a keep-alive after k.Idle without traffic; 0 is 15 s. If nothing is acknowledged for k.Count times k.Interval (0
// is 9 and 15 s), the connection ends with ETIMEDOUT, unless the transport has ended it before (AdapterConfig.PeerTimeout). The transport
// decides when a keep-alive is retransmitted. Negative values are as in package net: Idle turns keep-alives off, the others stand for their
// defaults. If the transport's own keep-alive and time-out are both shorter than k, only the transport sends. This is so with the defaults
// on adapters that this package opened. The transport sends after ten seconds, and later on an adapter with more than 5000 connections.
func (c *Conn) SetKeepAliveConfig(k net.KeepAliveConfig) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	c.keep.stop()
	c.keep = nil
	if !k.Enable || k.Idle < 0 {
		return nil
	}
	or := func(d, usual time.Duration) time.Duration {
		if d <= 0 {
			return usual
		}
		return d
	}
	keep := &keepAlive{idle: or(k.Idle, defaultKeepAlive), seen: c.send.number, arrived: c.arrived()}
	count, interval := or(time.Duration(k.Count), defaultKeepAliveCount), or(k.Interval, defaultKeepAlive)
	keep.patience = count * min(interval, math.MaxInt64/count)
	if silence := c.network.silence; silence > 0 && keep.idle >= transportAsks && keep.patience >= silence {
		return nil
	}
	keep.timer = time.AfterFunc(keep.idle, func() { c.signOfLife(keep) })
	c.keep = keep
	return nil
}

// arrived returns how many messages the peer has acknowledged.
func (c *Conn) arrived() uint { return c.send.number - uint(c.send.n) }

// signOfLife sends a keep-alive if nothing was sent, and ends the connection if nothing is acknowledged.
func (c *Conn) signOfLife(k *keepAlive) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keep != k || c.closed || c.failed != nil {
		return
	}
	c.takeResults()
	if c.send.number == k.seen && c.send.n == 0 {
		c.send.signDue = true
		c.flush()
	}
	now := time.Now()
	switch arrived := c.arrived(); {
	case c.send.n == 0 || arrived != k.arrived:
		k.since, k.arrived = time.Time{}, arrived
	case k.since.IsZero():
		k.since = now
	case now.Sub(k.since) >= k.patience:
		c.end(&fault{syscall.ETIMEDOUT, errKeepAlive})
		return
	}
	k.seen = c.send.number
	k.timer.Reset(min(k.idle, k.patience))
}
