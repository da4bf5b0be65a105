package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// early is a meeting whose active side has completed early. The packets of side 0 that drop selects do not reach the peer.
func early(t *testing.T, drop func(b []byte) bool) *meeting {
	t.Helper()
	m := newMeeting(t, 1).get().connect()
	m.receive(1, 0, 64)
	m.runUntilIdle()
	m.accept().runUntilIdle()
	m.link[1].mangle = func(b []byte) bool { return !drop(b) }
	m.must(m.ctr[0].CompleteConnectEarly())
	if m.ctr[0].State() != CtrEstablished || m.qp[0].State() != QPReady {
		t.Fatal(m.ctr[0].State(), m.qp[0].State())
	}
	return m
}

func isNone([]byte) bool { return false }

func isRTU(b []byte) bool { return opcode(b) == wire.CtlRTU }

// An active side that does not wait for the peer sends at once, and the message arrives also if RTU is lost each time.
func TestEarlySend(t *testing.T) {
	for name, drop := range map[string]func([]byte) bool{"RTU arrives": isNone, "RTU is lost": isRTU} {
		m := early(t, drop)
		m.post(0, m.send(0, 64))
		m.runUntilIdle()
		m.accepted.must(t, OutcomeSuccess)
		m.pass(time.Second)
		m.outcomes(0, OutcomeSuccess)
		m.outcomes(1, OutcomeSuccess)
		if at := m.conn(0).handshake.Due(); at != 0 {
			t.Errorf("%s: RTU is repeated to an established peer", name)
		}
	}
}

// Contents of the peer show that it is established, if no acknowledgement alone does.
func TestEarlyGetsContents(t *testing.T) {
	m := early(t, isNone)
	m.receive(0, 0, 64)
	m.link[0].mangle = func(b []byte) bool { return opcode(b) != blocksAlone }
	m.runUntilIdle()
	m.accepted.must(t, OutcomeSuccess)
	m.post(1, m.send(1, 64))
	m.runUntilIdle()
	m.outcomes(0, OutcomeSuccess)
	if m.conn(0).handshake.Due() != 0 {
		t.Error("RTU is repeated to a peer that sent contents")
	}
}

// RTU of an active side that neither waits nor sends is repeated until the peer has it, and the connection keeps what that takes.
func TestEarlyIsRepeated(t *testing.T) {
	lost := 0
	m := early(t, func(b []byte) bool {
		if isRTU(b) {
			lost++
		}
		return isRTU(b) && lost <= 6
	})
	m.pass(3 * m.eng[0].cfg.IdleAfter)
	m.accepted.must(t, OutcomeSuccess)
	if lost != 7 || m.conn(0).handshake.Due() != 0 {
		t.Errorf("RTU was sent %d times, want 7", lost)
	}
	if m.pass(time.Second); lost != 7 {
		t.Error("RTU is repeated to an established peer")
	}
}

// A peer that withdrew before it got RTU, or that is silent, is a lost connection to an active side that did not wait.
func TestEarlyIsLost(t *testing.T) {
	m := early(t, func([]byte) bool { return true })
	m.post(0, m.send(0, 64))
	m.runUntilIdle()
	m.ctr[1].Cancel()
	m.accepted.must(t, OutcomeCanceled)
	m.runUntilIdle()
	m.outcomes(0, OutcomeCanceled)
	if m.ctr[0].State() != CtrLost {
		t.Errorf("the peer withdrew: %v", m.ctr[0].State())
	}
	m.link[1].mangle = nil
	m.clean()

	m = early(t, func([]byte) bool { return true })
	m.link[0].mangle = func([]byte) bool { return false }
	m.pass(m.eng[0].cfg.DeadPeer - time.Millisecond)
	if m.ctr[0].State() != CtrEstablished {
		t.Errorf("the peer is silent, too early: %v", m.ctr[0].State())
	}
	m.pass(2 * time.Millisecond)
	if m.ctr[0].State() != CtrLost {
		t.Errorf("the peer is silent: %v", m.ctr[0].State())
	}
	m.link[0].mangle, m.link[1].mangle = nil, nil
	m.clean()
}

// Completing early is refused in the states that refuse CompleteConnect, with the same outcomes.
func TestEarlyInOtherStates(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	if o := m.ctr[0].CompleteConnectEarly(); o != OutcomeConnectionInvalid {
		t.Errorf("before the peer accepted: %v", o)
	}
	m.runUntilIdle()
	m.accept().runUntilIdle()
	m.ctr[1].Close()
	m.runUntilIdle()
	if o := m.ctr[0].CompleteConnectEarly(); o != OutcomeAborted {
		t.Errorf("after the peer withdrew: %v", o)
	}
	m.clean()
}
