package provider

import (
	"fmt"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Peers and clocks may report wrong values: offsets, congestion marks and times.

// No offset lies behind the last byte of a message. If a report takes back contents from such an offset, it has no effect and does
// not end the connection.
func TestTakenBackBehindTheEnd(t *testing.T) {
	for _, flags := range []PostFlags{0, FlagInline} {
		for _, offset := range []uint32{64, 65, 1 << 20, 1<<32 - 1} {
			t.Run(fmt.Sprintf("flags %#x, offset %d", flags, offset), func(t *testing.T) {
				p := newPair(t, 1408).connect().warmedUp()
				c := p.conn(0)
				r := p.write(0, 0, 64)
				if r.Flags = flags; flags&FlagInline != 0 {
					r.SGL, r.Inline = nil, make([]byte, 64)
				}
				for range 3 {
					p.post(0, r)
				}
				p.link[1].mangle = func([]byte) bool { return false } // nothing arrives meanwhile
				p.eng[0].Run(p.now)
				report := func(ahead uint32, m wire.Report) {
					f := &forged{from: c.identity.remote, fields: wire.BaseFields{ConnID: c.identity.id, Number: c.traffic.received.numbers.Largest() + uint64(ahead)}}
					f.bare()
					m.ReceiveLimit, f.report = c.requestNumbers.sendLimit, &m
					p.inject(0, f)
					p.now = p.now.Add(10 * time.Microsecond)
					p.eng[0].Run(p.now)
				}
				report(1, wire.Report{Flags: wire.ReportTakenBack | wire.ReportRNR, Message: uint16(c.requestNumbers.nextMessage - 2), Offset: offset, UpTo: uint32(c.traffic.sent.packets.Next() - 1)})
				if p.conn(0) == nil || p.eng[0].Stats().Drops[wire.DropAckRange] != 1 {
					t.Error("an invalid offset is accepted")
				}
				report(1, wire.Report{})
				p.link[1].mangle = nil
				p.pass(time.Second)
				p.outcomes(0, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
			})
		}
	}
}

// False reports of congestion marks cannot enlarge the window.
func TestReportedMarksDoNotOpenTheWindow(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{DataCenter: true}).connect().warmedUp()
	c, sum, worst := p.conn(0), uint32(0), 0
	for range 400 {
		p.post(0, p.write(0, 0, 64))
		for range 60 {
			sum += 1<<31 - 1
			f := &forged{from: c.identity.remote, fields: wire.BaseFields{ConnID: c.identity.id, Number: c.traffic.received.numbers.Largest() + 1}}
			f.bare()
			f.report = &wire.Report{ReceiveLimit: c.requestNumbers.sendLimit, CECount: sum}
			p.inject(0, f)
			p.eng[0].Run(p.now)
		}
		p.pass(100 * time.Microsecond)
		p.results(0)
		worst = max(worst, c.traffic.sent.cc.NetworkWindow())
	}
	if worst > 1<<30 {
		t.Errorf("the window was %d bytes", worst)
	}
}

// No acknowledgement is sent for a control packet alone; the next data carry it. This wait does not count as an absence of the
// peer.
func TestIdlePeersAreNotAway(t *testing.T) {
	const pause = 8 * time.Millisecond
	for _, busy := range []bool{false, true} {
		p := newPair(t, 1408).connect().warmedUp()
		for range 20 {
			p.post(1, p.write(1, 0, 64))
			p.pass(100 * time.Microsecond)
			p.outcomes(1, OutcomeSuccess)
		}
		if busy {
			for range 20 { // now and then side 0 writes something, and side 1 acknowledges it
				p.post(0, p.write(0, 0, 64))
				p.pass(pause)
				p.outcomes(0, OutcomeSuccess)
			}
		}
		p.loseFirst(0, 1, wire.OpWrite)
		start := p.now
		p.post(1, p.write(1, 0, 64))
		for p.cq[1].Empty() && p.now.Sub(start) < time.Second {
			if !p.turn() {
				p.now = max(p.now, p.nextDeadline())
			}
		}
		p.outcomes(1, OutcomeSuccess)
		if took := p.now.Sub(start); took > time.Millisecond {
			t.Errorf("busy %v: a lost packet is repaired after %v", busy, took)
		}
	}
}

// Time without packets in flight is not a silence of the peer, because the program had nothing to send. A later packet of the peer
// about something else does not end a silence.
func TestIdleTimeIsNoSilence(t *testing.T) {
	const pause = 4 * time.Millisecond
	for name, use := range map[string]func(p *pair){
		"Writes": func(p *pair) {
			p.post(0, p.write(0, 0, 64))
			p.pass(2 * pause)
		},
		"a receive posted late for each Send": func(p *pair) {
			p.receive(1, 0, 64)
			p.pass(pause)
			p.post(0, p.send(0, 64))
			p.pass(pause)
		},
		"the peer's Writes in between": func(p *pair) {
			p.post(0, p.write(0, 0, 64))
			p.pass(pause)
			p.post(1, p.write(1, 0, 64))
			p.pass(pause)
		},
	} {
		p := newPair(t, 1408).connect().warmedUp()
		for range 20 {
			use(p)
		}
		p.results(0)
		p.results(1)
		p.post(0, p.write(0, 0, 64))
		p.eng[0].Run(p.now.Add(1))
		if at := p.conn(0).traffic.sent.cc.GrantAt(p.now); at != 0 {
			t.Errorf("%s: more than the window may be in flight in %v", name, at.Sub(p.now))
		}
	}
}

// Arrival times of another clock, as in a time namespace, are ignored. Round trips are measured without them.
func TestStampsOfAnotherClock(t *testing.T) {
	for name, off := range map[string]time.Duration{"right": 0, "an hour ago": -time.Hour, "in an hour": time.Hour} {
		p := newPair(t, 1408)
		for side := range p.link {
			l := p.link[side]
			l.router = func(*TxPacket) (ce, ok bool) {
				l.stamp = p.now.Add(off)
				return false, true
			}
		}
		p.connect()
		for range 100 {
			p.post(0, p.write(0, 0, 64))
			p.pass(100 * time.Microsecond)
			p.results(0)
		}
		if got := p.conn(0).rtt.Smoothed; got <= 0 || got > time.Millisecond {
			t.Errorf("%s: the smoothed round trip is %v", name, got)
		}
	}
}
