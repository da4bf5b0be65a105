package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
	"github.com/ndxdp/ndxdp/wire"
)

// messages records the control messages that arrive at some sides, and acknowledgements alone as blocksAlone.
func (m *meeting) messages(sides ...int) *[]wire.Opcode {
	seen := new([]wire.Opcode)
	for _, side := range sides {
		m.link[side].mangle = func(b []byte) bool {
			if h, _ := wire.ParseBaseHeader(b); h.Control() {
				*seen = append(*seen, opcode(b))
			}
			return true
		}
	}
	return seen
}

// An application that answers in time needs no message that says that its side is alive. One that takes longer is announced once, before
// the peer repeats its message (PROTOCOL §7.2).
func TestOnlySlowApplicationsAreAnnounced(t *testing.T) {
	for _, c := range []struct {
		thinks time.Duration
		want   []wire.Opcode
	}{
		{lifetime.ThinkTime / 2, []wire.Opcode{wire.CtlREQ, wire.CtlREP, wire.CtlRTU, blocksAlone}},
		{lifetime.FirstRetry * 5, []wire.Opcode{wire.CtlREQ, wire.CtlPEND, wire.CtlREP, wire.CtlREPACK, wire.CtlRTU, blocksAlone}},
	} {
		m := newMeeting(t, 1).get()
		seen := m.messages(0, 1)
		m.connect().pass(c.thinks)
		m.accept().pass(c.thinks)
		m.complete().pass(lifetime.FirstRetry * 5)
		m.completed.must(t, OutcomeSuccess)
		if !slices.Equal(*seen, c.want) {
			t.Errorf("an application that thinks for %v: %v, want %v", c.thinks, *seen, c.want)
		}
	}
}

// An RTU that somebody waits for is answered at once. The answer to an early one waits for data that can carry it, but not for long.
func TestAnswerToRTUWaitsIfNobodyElseDoes(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.accept().runUntilIdle()
	from := m.now
	m.complete().runUntilIdle()
	if m.completed.must(t, OutcomeSuccess); m.now.Sub(from) > 10*time.Microsecond {
		t.Errorf("CompleteConnect took %v", m.now.Sub(from))
	}

	for _, answers := range []bool{true, false} {
		m := early(t, isNone)
		seen := m.messages(0)
		m.receive(0, 0, 64)
		m.runUntilIdle()
		if answers {
			m.accepted.must(t, OutcomeSuccess)
			m.post(1, m.send(1, 64))
		}
		m.pass(2 * turn.AnswerTime)
		if at := m.conn(0).handshake.Due(); at != 0 {
			t.Errorf("data %v: RTU will be repeated", answers)
		}
		if alone := slices.Contains(*seen, blocksAlone); alone == answers {
			t.Errorf("data %v, acknowledgement alone %v", answers, alone)
		}
	}
}

// A peer that was promised the receives in the handshake gets no report of them when the connection is established.
func TestPromisedReceivesAreNotReported(t *testing.T) {
	m := newMeeting(t, 1)
	for side := range 2 {
		m.receive(side, 0, 64)
		m.receive(side, 64, 64)
	}
	seen := m.messages(0, 1)
	m.get().connect().runUntilIdle()
	m.accept().runUntilIdle()
	m.must(m.ctr[0].CompleteConnectEarly())
	m.runUntilIdle()
	if want := []wire.Opcode{wire.CtlREQ, wire.CtlREP, wire.CtlRTU}; !slices.Equal(*seen, want) {
		t.Errorf("%v, want %v", *seen, want)
	}
	for side := range 2 {
		m.post(side, m.send(side, 64))
		m.post(side, m.send(side, 64))
	}
	m.runUntilIdle()
	for side := range 2 {
		m.outcomes(side, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
	}
}
