package ndnet

import (
	"net"
	"time"
)

// keepAlive has an idle connection say something, so that a peer that is gone is noticed: the transport ends a connection whose packets
// are not acknowledged. Without it the transport asks by itself after ten seconds.
type keepAlive struct {
	timer *time.Timer
	idle  time.Duration
	seen  uint // messages that were sent when it was looked at last
}

func (k *keepAlive) stop() {
	if k != nil {
		k.timer.Stop()
	}
}

// defaultKeepAlive is that of package net.
const defaultKeepAlive = 15 * time.Second

// SetKeepAlive turns signs of life on an idle connection on, one each 15 s, or off. The transport asks idle peers for them anyway, each 10 s with
// fewer than 10,000 connections.
func (c *Conn) SetKeepAlive(on bool) error {
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: on})
}

// SetKeepAlivePeriod has a sign of life sent after d without traffic.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: d})
}

// SetKeepAliveConfig has a sign of life sent after k.Idle without traffic, 0 being 15 s. How often it is repeated, and when the peer counts as
// gone, is the transport's to decide: k.Interval and k.Count have no effect.
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
	idle := k.Idle
	if idle == 0 {
		idle = defaultKeepAlive
	}
	keep := &keepAlive{idle: idle, seen: c.send.number}
	keep.timer = time.AfterFunc(idle, func() { c.signOfLife(keep) })
	c.keep = keep
	return nil
}

// SetNoDelay does nothing: small writes wait for each other only while many are on their way.
func (c *Conn) SetNoDelay(bool) error { return nil }

// signOfLife says something if nothing was said.
func (c *Conn) signOfLife(k *keepAlive) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keep != k || c.closed || c.failed != nil {
		return
	}
	c.takeResults()
	if c.send.number == k.seen {
		c.send.signDue = true
		c.flush()
	}
	k.seen = c.send.number
	k.timer.Reset(k.idle)
}
