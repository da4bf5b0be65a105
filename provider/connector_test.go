package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// A message of the handshake that nobody answers is repeated after 20 ms, and then after twice as long each time, up to a second.
func TestHandshakeRepeatsMoreAndMoreSlowly(t *testing.T) {
	m := newMeeting(t, 1)
	begun := m.now
	var at []time.Duration
	m.link[1].mangle = func(b []byte) bool {
		if opcode(b) == wire.CtlREQ {
			at = append(at, m.now.Sub(begun).Truncate(time.Millisecond))
		}
		return false
	}
	m.connect().pass(6 * time.Second)
	m.connected.must(t, OutcomeIOTimeout)
	gap, due := firstRetry, time.Duration(0)
	for i, sent := range at {
		if sent < due || sent > due+time.Millisecond {
			t.Errorf("message %d was sent after %v, want %v", i, sent, due)
		}
		due += gap
		gap = min(2*gap, maxRetry)
	}
	if len(at) < 8 {
		t.Errorf("only %d messages", len(at))
	}
}

// A peer that ends the connection before it was there: its request, or its accept, is over.
func TestNoticeDuringTheHandshake(t *testing.T) {
	notice := func(m *meeting, side int) {
		c := m.ctr[side].conn
		f := &forged{from: c.remote, fields: wire.BaseFields{ConnID: c.id, TxTime: m.now.Low32()}}
		f.control(wire.CtlDREQ, make([]byte, 8))
		m.inject(side, f)
		m.settle()
	}
	m := newMeeting(t, 1).get().connect()
	m.settle()
	notice(m, 1)
	if o := m.ctr[1].Accept(m.qp[1], m.limits[1], m.accepted.finish); o != OutcomeAborted {
		t.Errorf("Accept: %v", o)
	}
	m.clean()

	m = newMeeting(t, 1).get().connect()
	m.settle()
	m.accept().settle()
	m.connected.must(t, OutcomeSuccess)
	notice(m, 0)
	if o := m.ctr[0].CompleteConnect(m.completed.finish); o != OutcomeAborted {
		t.Errorf("CompleteConnect: %v", o)
	}
	if m.qp[0].State() != QPIdle {
		t.Errorf("queue pair %v", m.qp[0].State())
	}
	m.clean()
}
