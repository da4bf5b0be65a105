package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// A REJ does not end an open connection on either side: the REJ is dropped and counted.
func TestRejectDoesNotEndAnOpenConnection(t *testing.T) {
	for side := range 2 {
		for _, reason := range []wire.RejectReason{wire.RejectAbandoned, wire.RejectWithdrawn, wire.RejectConsumer} {
			p := newPair(t, 1408).connect()
			f := p.forge(side)
			m := wire.Reject{Reason: reason, Private: []byte("no")}
			f.control(wire.CtlREJ, m.Append(nil))
			before := p.eng[side].Stats().Drops[wire.DropState]
			p.inject(side, f)
			p.runUntilIdle()
			if s := p.ctr[side].State(); s != CtrEstablished {
				t.Errorf("side %d after a REJ (%v): %v", side, reason, s)
			}
			if n := p.eng[side].Stats().Drops[wire.DropState] - before; n != 1 {
				t.Errorf("side %d counted %d dropped packets, want 1", side, n)
			}
			p.post(0, p.write(0, 0, 100))
			p.runUntilIdle()
			p.outcomes(0, OutcomeSuccess)
		}
	}
}

// If the active side gives up after it sent RTU, it cannot know whether the peer is established. Whichever packets are lost, the
// peer must not keep the connection open.
func TestAbandonedAfterRTU(t *testing.T) {
	for _, c := range []struct {
		name   string
		side   int // what the link to this side loses
		op     wire.Opcode
		giveUp func(m *meeting)
	}{
		{"RTU lost, canceled", 1, wire.CtlRTU, func(m *meeting) { m.ctr[0].Cancel() }},
		{"ACK lost, canceled", 0, blocksAlone, func(m *meeting) { m.ctr[0].Cancel() }},
		{"ACK lost, connector closed", 0, blocksAlone, func(m *meeting) { m.ctr[0].Close() }},
		{"ACK lost, queue pair released", 0, blocksAlone, func(m *meeting) { m.qp[0].Release() }},
		{"ACK lost for ever", 0, blocksAlone, func(m *meeting) { m.pass(6 * time.Second) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMeeting(t, 1).get().connect()
			m.runUntilIdle()
			m.accept().runUntilIdle()
			m.loseFirst(c.side, 1<<30, c.op)
			m.complete().runUntilIdle()
			if m.completed.times != 0 {
				t.Fatal("completed without an answer")
			}
			c.giveUp(m)
			m.pass(100 * time.Millisecond)
			if s := m.ctr[1].State(); s != CtrLost && s != CtrDone {
				t.Errorf("the peer's end is %v a moment later", s)
			}
			m.ctr[1].Close()
			m.clean()
		})
	}
}
