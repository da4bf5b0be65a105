package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// What the peer said with its rejection belongs to that attempt: after a later one that nobody answered there is nothing.
func TestPrivateDataOfAnEarlierRejection(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.settle()
	m.must(m.ctr[1].Reject([]byte("no")))
	m.settle()
	m.connected.must(t, OutcomeRefused)
	if private, o := m.ctr[0].Private(); o != OutcomeSuccess || string(private) != "no" {
		t.Fatalf("%q %v", private, o)
	}
	m.link[1].mangle = func([]byte) bool { return false }
	m.connected = promise{}
	m.connect().pass(6 * time.Second)
	m.connected.must(t, OutcomeIOTimeout)
	if private, o := m.ctr[0].Private(); o != OutcomeConnectionInvalid {
		t.Errorf("%q %v", private, o)
	}
}

// Of two mistakes in one call the size of the private data is told first (ND specification 7.5).
func TestPrivateDataIsCheckedBeforeTheQueuePair(t *testing.T) {
	p := newPair(t, 1408).connect()
	long := ConnectParams{Private: make([]byte, MaxPrivateData+1)}
	k := p.eng[0].NewConnector()
	if o := k.Connect(p.qp[0], wire.Endpoint{IP: pairIP[0]}, wire.Endpoint{IP: pairIP[1], Port: pairPort}, long, func(Outcome) {}); o != OutcomeInvalidBufferSize {
		t.Errorf("busy queue pair: %v", o)
	}
	p.eng[0].ReleaseQP(p.qp[0])
	if o := CheckParams(p.qp[0], long); o != OutcomeInvalidBufferSize {
		t.Errorf("released queue pair: %v", o)
	}
}

// A bound connector that takes a request gives its own port back.
func TestRequestForABoundConnector(t *testing.T) {
	m := newMeeting(t, 1)
	at := wire.Endpoint{IP: pairIP[1], Port: 7200}
	m.must(m.ctr[1].Bind(at))
	other := m.eng[1].NewConnector()
	if o := other.Bind(at); o != OutcomeSharingViolation {
		t.Fatalf("bound twice: %v", o)
	}
	m.get()
	m.must(other.Bind(at))
	m.connect().settle()
	m.got.must(t, OutcomeSuccess)
	if local, o := m.ctr[1].Local(); o != OutcomeSuccess || local != m.at {
		t.Errorf("%v %v, want the listener's endpoint", local, o)
	}
}

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
