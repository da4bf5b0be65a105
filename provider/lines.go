package provider

import (
	"slices"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
)

// ackLine is the connections that have an acknowledgement to send, each once.
type ackLine struct{ conns []*conn }

// join puts a connection in line.
func (l *ackLine) join(c *conn) {
	if !c.places.inAcks {
		c.places.inAcks = true
		l.conns = append(l.conns, c)
	}
}

// leave takes out a connection that may be in line.
func (l *ackLine) leave(c *conn) {
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
	c.places.inAcks = false
}

// waiting returns how many connections are in line.
func (l *ackLine) waiting() int { return len(l.conns) }

// send sends the acknowledgements that are due, once for each connection and turn at the most.
func (l *ackLine) send() {
	keep := l.conns[:0]
	for _, c := range l.conns {
		speak, wait := false, false
		if c.phase != phaseFree {
			speak, wait = c.traffic.received.ack.Turn()
		}
		if speak {
			c.withTraffic(func(t *traffic) { wait = !t.sendAck() })
		}
		if wait { // without frames: the next turn
			keep = append(keep, c)
			continue
		}
		c.places.inAcks = false
		if speak && c.phase == phaseLingering {
			c.touch() // it waited for this
		}
	}
	clear(l.conns[len(keep):])
	l.conns = keep
}

// heardLine is the connections that have heard from their peers in this receive batch, each once.
type heardLine struct{ conns []*conn }

// join puts a connection in line.
func (l *heardLine) join(c *conn) {
	if !c.places.inHeard {
		c.places.inHeard = true
		l.conns = append(l.conns, c)
	}
}

// waiting returns how many connections are in line.
func (l *heardLine) waiting() int { return len(l.conns) }

// conclude lets the controllers of every connection that heard something draw their conclusions, once per receive batch.
func (l *heardLine) conclude(ctl congestion.Control, turns *turn.Clock, now clock.Time) {
	for i, c := range l.conns {
		l.conns[i] = nil
		c.places.inHeard = false
		if c.phase != phaseOpen {
			c.traffic.sent.cc.Discard()
			continue
		}
		c.traffic.sent.cc.Conclude(ctl, congestion.Path{Now: now, Own: turns.OwnPart(), Smoothed: c.rtt.Smoothed, Idle: c.traffic.sent.loss.Idle()})
		if base := c.traffic.sent.cc.Base(); base > 0 {
			c.rtt.Min = base
		}
	}
	l.conns = l.conns[:0]
}
