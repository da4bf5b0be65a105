package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// An unanswered handshake message is repeated after 20 ms. Each further wait is twice as long, up to a second. Every wait but the
// first is shortened by a random part of up to a quarter (PROTOCOL §7.2).
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
	gap, due := lifetime.FirstRetry, lifetime.FirstRetry
	for i := 1; i < len(at); i++ {
		if sent := at[i]; sent > due+time.Millisecond || sent < due-gap/4-time.Millisecond || i == 1 && sent < due-time.Millisecond {
			t.Errorf("message %d was sent after %v, want %v, or a little sooner", i, sent, due)
		}
		due = at[i]
		gap = min(2*gap, lifetime.MaxRetry)
		due += gap
	}
	if len(at) < 8 {
		t.Errorf("only %d messages", len(at))
	}
}

// If the peer ends the connection during the handshake, the pending Connect or Accept completes with an error.
func TestNoticeDuringTheHandshake(t *testing.T) {
	notice := func(m *meeting, side int) {
		c := m.ctr[side].conn
		f := &forged{from: c.identity.remote, fields: wire.BaseFields{ConnID: c.identity.id, Number: c.traffic.received.numbers.Largest() + 1}}
		f.control(wire.CtlDREQ, nil)
		m.inject(side, f)
		m.runUntilIdle()
	}
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	notice(m, 1)
	if o := m.ctr[1].Accept(m.qp[1], m.limits[1], m.accepted.finish); o != OutcomeAborted {
		t.Errorf("Accept: %v", o)
	}
	m.clean()

	m = newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.accept().runUntilIdle()
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

// answer makes a packet of the peer's host for side 0's attempt, whose connection has no peer yet.
func (m *meeting) answer(from uint16, op wire.Opcode, body []byte) *forged {
	f := &forged{from: wire.Endpoint{IP: pairIP[1], Port: from}, fields: wire.BaseFields{ConnID: m.conn(0).identity.id}}
	f.control(op, body)
	f.fields.ConnID = m.conn(0).identity.id
	return f
}

// An accept counts only if it comes from the right address and port, and has the nonce of this request.
func TestAcceptOfAnotherAttemptIsNone(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	var rep []byte
	m.link[0].mangle = func(b []byte) bool {
		if opcode(b) == wire.CtlREP {
			rep = append([]byte(nil), contents(b)[wire.ControlHeaderLen:]...)
			return false
		}
		return true
	}
	m.accept().runUntilIdle()
	m.link[0].mangle = nil
	var hello wire.Hello
	if d := wire.ParseHello(rep, &hello); d != wire.DropNone {
		t.Fatal(d)
	}
	port := wire.SourcePort(hello.ConnID)
	for name, change := range map[string]func(f *forged){
		"nonce":   func(f *forged) { f.body[wire.ControlHeaderLen+8] ^= 1 },
		"address": func(f *forged) { f.from.IP[15] ^= 8 },
	} {
		f := m.answer(port, wire.CtlREP, rep)
		change(f)
		before := m.eng[0].Stats().Drops[wire.DropAddress]
		m.inject(0, f)
		m.runUntilIdle()
		if m.ctr[0].State() != CtrConnecting || m.eng[0].Stats().Drops[wire.DropAddress] != before+1 {
			t.Errorf("%s: %v, %v", name, m.ctr[0].State(), m.eng[0].Stats().Drops)
		}
	}
	m.inject(0, m.answer(port, wire.CtlREP, rep))
	m.runUntilIdle()
	m.connected.must(t, OutcomeSuccess)
}

// A request may come from any source port, because translators on the path may change it (PROTOCOL §6.1).
func TestRequestFromAnotherPort(t *testing.T) {
	m := newMeeting(t, 1)
	f := stranger(address(1), 77, 5, nil, nil)
	f.from.Port ^= 1
	m.inject(1, f)
	m.runUntilIdle()
	if s := m.eng[1].Stats(); s.Connections != 1 || s.Drops[wire.DropAddress]+s.Drops[wire.DropPath] != 0 {
		t.Errorf("%+v", s)
	}
}

// If the peer already has a connection with these addresses and ports, Connect reports it, and the connector cannot be used again.
func TestConnectThatExistsAtThePeer(t *testing.T) {
	m := newMeeting(t, 1).connect()
	m.runUntilIdle()
	reject := wire.Reject{Reason: wire.RejectExists}
	m.inject(0, m.answer(wire.SourcePort(0), wire.CtlREJ, reject.Append(nil)))
	m.runUntilIdle()
	m.connected.must(t, OutcomeAddressExists)
	if m.ctr[0].State() != CtrDone || m.qp[0].State() != QPIdle {
		t.Error(m.ctr[0].State(), m.qp[0].State())
	}
}

// A RETRY does not show that the peer noted the request. The attempt ends as early as without a RETRY.
func TestRetryIsNoSignOfLife(t *testing.T) {
	m := newMeeting(t, 1)
	m.link[1].mangle = func([]byte) bool { return false }
	m.connect().pass(4900 * time.Millisecond)
	m.inject(0, m.answer(wire.SourcePort(0), wire.CtlRETRY, make([]byte, wire.CookieLen)))
	m.pass(90 * time.Millisecond)
	if m.connected.times != 0 {
		t.Error("too early")
	}
	m.pass(20 * time.Millisecond)
	m.connected.must(t, OutcomeIOTimeout)
}

// If a connection is closed or released locally, calls that wait for it return OutcomeCanceled. A Disconnect that is canceled
// reports that the connection has ended.
func TestOwnEndOfAConnection(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *pair)
		want Outcome
	}{
		"close":    {func(p *pair) { p.ctr[0].Close() }, OutcomeCanceled},
		"release":  {func(p *pair) { p.qp[0].Release() }, OutcomeCanceled},
		"canceled": {func(p *pair) { p.ctr[0].Cancel() }, OutcomeCanceled},
		"disconnect given up": {func(p *pair) {
			p.must(p.ctr[0].Disconnect(func(Outcome) {}))
			p.ctr[0].CancelPending()
		}, OutcomeSuccess},
		"release while disconnecting": {func(p *pair) {
			p.must(p.ctr[0].Disconnect(func(Outcome) {}))
			p.qp[0].Release()
		}, OutcomeSuccess},
	} {
		p := newPair(t, 1408).connect()
		var notified promise
		_, o := p.ctr[0].NotifyDisconnect(notified.finish)
		p.must(o)
		c.end(p)
		if notified.times != 1 || notified.outcome != c.want {
			t.Errorf("%s: notified %d times, %v, want %v", name, notified.times, notified.outcome, c.want)
		}
	}
}

// An application may think for any time. If the peer's provider falls silent meanwhile, the attempt ends, on either side.
func TestSilenceWhileApplicationsThink(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.link[1].mangle = func([]byte) bool { return false }
	m.pass(4 * time.Second)
	if m.ctr[1].aborted != OutcomeSuccess {
		t.Error("the passive side gives up too early")
	}
	m.pass(2 * time.Second)
	if o := m.ctr[1].Accept(m.qp[1], m.limits[1], m.accepted.finish); o != OutcomeAborted {
		t.Errorf("Accept: %v", o)
	}

	m = newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.accept().runUntilIdle()
	m.connected.must(t, OutcomeSuccess)
	m.link[0].mangle = func([]byte) bool { return false }
	m.pass(4 * time.Second)
	if m.ctr[0].aborted != OutcomeSuccess {
		t.Error("the active side gives up too early")
	}
	m.pass(2 * time.Second)
	if o := m.ctr[0].CompleteConnect(m.completed.finish); o != OutcomeAborted || m.qp[0].State() != QPIdle {
		t.Errorf("CompleteConnect: %v, queue pair %v", o, m.qp[0].State())
	}
}

// A paused listener refuses requests as if no listener existed, and accepts them again after it is resumed.
func TestPausedListener(t *testing.T) {
	m := newMeeting(t, 1).get()
	m.l.Pause(true)
	m.connect().runUntilIdle()
	m.connected.must(t, OutcomeRefused)
	if m.got.times != 0 || m.eng[1].Stats().Drops[wire.DropNoListener] != 1 {
		t.Errorf("%+v", m.eng[1].Stats())
	}
	m.l.Pause(false)
	m.connected = promise{}
	m.connect().runUntilIdle()
	m.got.must(t, OutcomeSuccess)
}
