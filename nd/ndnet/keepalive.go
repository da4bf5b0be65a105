package ndnet

import (
	"errors"
	"math"
	"net"
	"syscall"
	"time"
)

// keepAlive has an idle connection say something, so that a peer that is gone is noticed. Without it the transport asks by itself after ten
// seconds, and waits for as long as the adapter is set to.
type keepAlive struct {
	timer    *time.Timer
	idle     time.Duration
	patience time.Duration // how long what was said may stay unacknowledged
	seen     uint          // messages that were sent when it was looked at last
	arrived  uint          // and those of them that the peer had acknowledged
	since    time.Time     // when fewer had arrived than were sent, and it has stayed so; else zero
}

func (k *keepAlive) stop() {
	if k != nil {
		k.timer.Stop()
	}
}

// The defaults are those of package net.
const (
	defaultKeepAlive      = 15 * time.Second // and of the interval
	defaultKeepAliveCount = 9
)

// transportAsks is after how much silence the transport asks an idle peer for a sign of life by itself (PROTOCOL §9.5).
const transportAsks = 10 * time.Second

// keepAliveOf is the configuration of connections that a Dialer or ListenConfig makes with these fields, as package net says.
func keepAliveOf(idle time.Duration, k net.KeepAliveConfig) net.KeepAliveConfig {
	if !k.Enable && idle >= 0 {
		return net.KeepAliveConfig{Enable: true, Idle: idle}
	}
	return k
}

var errKeepAlive = errors.New("the peer acknowledged nothing for as long as signs of life may take")

// SetKeepAlive turns signs of life on an idle connection on, one each 15 s, or off. The transport asks idle peers for them anyway, each 10 s with
// fewer than 10,000 connections.
func (c *Conn) SetKeepAlive(on bool) error {
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: on})
}

// SetKeepAlivePeriod has a sign of life sent after d without traffic.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: d})
}

// SetKeepAliveConfig has a sign of life sent after k.Idle without traffic, 0 being 15 s. Where nothing is acknowledged for k.Count times k.Interval,
// 0 being 9 and 15 s, the connection ends with ETIMEDOUT, unless the transport has ended it before (AdapterConfig.PeerTimeout). The sign is
// repeated at the transport's time. Negative values are those of package net: Idle turns it off, the others stand for their defaults. Where
// the transport asks sooner and gives up sooner than k says, it alone asks: it does with the defaults, on adapters that this package opened.
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

// arrived is how many messages the peer has acknowledged.
func (c *Conn) arrived() uint { return c.send.number - uint(c.send.n) }

// signOfLife says something if nothing was said, and ends the connection if nothing arrives.
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
