package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// clean fails the test if anything is left after a while, or a frame is not back at its link (I8).
func (p *pair) clean() {
	p.tb.Helper()
	p.pass(20 * time.Second)
	for i := range 2 {
		s := p.eng[i].Stats()
		if s.Connections != 0 || s.IllegalTransitions != 0 || p.eng[i].directory.peers.Len() != 0 || p.eng[i].directory.tuples.Len() != 0 {
			p.tb.Errorf("engine %d: %+v, %d peers, %d tuples", i, s, p.eng[i].directory.peers.Len(), p.eng[i].directory.tuples.Len())
		}
		if len(p.link[i].rxFree) != pipeFrames || len(p.link[i].txFree)+p.eng[i].FramesHeld() != pipeFrames {
			p.tb.Errorf("engine %d: frames are missing", i)
		}
		if use := p.eng[i].PoolUse(); use != (PoolUse{}) {
			p.tb.Errorf("engine %d: connections that are gone have %+v", i, use)
		}
		for at, n := range p.eng[i].directory.ports.All() {
			if n < 0 {
				p.tb.Errorf("engine %d: port %v is used %d times", i, at, n)
			}
		}
	}
}

func TestDisconnectInTurn(t *testing.T) {
	for first := range 2 {
		p := newPair(t, 1408).connect()
		p.receive(0, 0, 10)
		p.receive(1, 0, 10)
		p.runUntilIdle()
		var notified, one, other promise
		_, o := p.ctr[1-first].NotifyDisconnect(notified.finish)
		p.must(o)
		p.must(p.ctr[first].Disconnect(one.finish))
		p.runUntilIdle()
		p.outcomes(first, OutcomeCanceled)
		p.outcomes(1 - first) // the peer's DREQ flushes nothing
		notified.must(t, OutcomeSuccess)
		if one.times != 0 || p.ctr[1-first].State() != CtrPeerGone || p.qp[1-first].State() != QPReady {
			t.Error(one, p.ctr[1-first].State(), p.qp[1-first].State())
		}
		p.must(p.ctr[1-first].Disconnect(other.finish))
		p.runUntilIdle()
		p.outcomes(1-first, OutcomeCanceled)
		one.must(t, OutcomeSuccess)
		other.must(t, OutcomeSuccess)
		if p.qp[0].State() != QPClosed || p.qp[1].State() != QPClosed {
			t.Error(p.qp[0].State(), p.qp[1].State())
		}
		p.clean()
	}
}

func TestDisconnectAtOnce(t *testing.T) {
	p := newPair(t, 1408).connect()
	var done [2]promise
	for i := range 2 {
		p.must(p.ctr[i].Disconnect(done[i].finish))
	}
	p.runUntilIdle()
	for i := range 2 {
		done[i].must(t, OutcomeSuccess)
	}
	p.clean()
}

// Every DREQ of the first second is lost. Disconnect repeats it for as long as Disconnect waits.
func TestDisconnectOutlastsAPartition(t *testing.T) {
	p := newPair(t, 1408).connect()
	var notified, done promise
	_, o := p.ctr[1].NotifyDisconnect(notified.finish)
	p.must(o)
	p.link[1].mangle = func([]byte) bool { return false }
	p.must(p.ctr[0].Disconnect(done.finish))
	p.pass(time.Second)
	p.link[1].mangle = nil
	p.pass(1500 * time.Millisecond)
	notified.must(t, OutcomeSuccess)
	p.must(p.ctr[1].Disconnect(func(Outcome) {}))
	p.runUntilIdle()
	done.must(t, OutcomeSuccess)
	p.clean()
}

func TestDisconnectTimesOut(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(1, 0, 10)
	var notified, done promise
	_, o := p.ctr[0].NotifyDisconnect(notified.finish)
	p.must(o)
	p.must(p.ctr[0].Disconnect(done.finish))
	p.pass(9 * time.Second)
	if done.times+notified.times != 0 {
		t.Error("too early")
	}
	p.pass(2 * time.Second)
	done.must(t, OutcomeIOTimeout)
	notified.must(t, OutcomeSuccess)
	p.outcomes(1, OutcomeCanceled) // the peer learns that the connection is over
	if p.ctr[1].State() != CtrLost {
		t.Error(p.ctr[1].State())
	}
	p.clean()
}

// The connection is lost while Disconnect waits. Calls that wait for its end return, and Disconnect reports the loss.
func TestConnectionLostWhileDisconnectWaits(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(p *pair)
		want Outcome
	}{
		"the peer forgot it": {func(p *pair) {
			f := p.forge(0)
			m := wire.Reset{ConnID: p.conn(1).identity.id, Token: p.conn(0).identity.peerToken}
			f.control(wire.CtlRST, m.Append(nil))
			f.fields.ConnID = 0
			p.inject(0, f)
		}, OutcomeAborted},
		"the peer cut it off": {func(p *pair) { p.ctr[1].Close() }, OutcomeAborted},
		"the peer is silent": {func(p *pair) {
			p.link[0].mangle = func([]byte) bool { return false }
			p.pass(8 * time.Second) // answers to its Read are in flight, and their acknowledgements are lost
		}, OutcomeIOTimeout},
	} {
		p := newPair(t, 1408).connect()
		var notified, done promise
		_, o := p.ctr[0].NotifyDisconnect(notified.finish)
		p.must(o)
		r := p.write(1, 0, 100000)
		r.Kind = KindRead
		p.post(1, r)
		p.turn() // engine 0 has not processed it yet
		p.eng[0].Run(p.now)
		p.must(p.ctr[0].Disconnect(done.finish))
		c.lose(p)
		p.runUntilIdle()
		if t.Run(name, func(t *testing.T) {
			done.must(t, c.want)
			notified.must(t, OutcomeSuccess)
		}); p.ctr[0].State() != CtrDone {
			t.Errorf("%s: %v", name, p.ctr[0].State())
		}
		p.link[0].mangle = nil
		p.clean()
	}
}

// Answers to canceled Reads do not disturb a graceful end.
func TestDisconnectWithAReadUnderWay(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.read(0, 100000))
	p.turn()
	p.turn()
	var done promise
	p.must(p.ctr[0].Disconnect(done.finish))
	p.outcomes(0) // the next poll reports it
	p.runUntilIdle()
	p.outcomes(0, OutcomeCanceled)
	p.must(p.ctr[1].Disconnect(func(Outcome) {}))
	p.runUntilIdle()
	done.must(t, OutcomeSuccess)
	p.clean()
}

func TestCloseCutsThePeerOff(t *testing.T) {
	for name, end := range map[string]func(p *pair){
		"connector closed":    func(p *pair) { p.ctr[0].Close() },
		"queue pair released": func(p *pair) { p.qp[0].Release() },
		"canceled disconnect": func(p *pair) {
			p.must(p.ctr[0].Disconnect(func(Outcome) {}))
			p.runUntilIdle()
			p.ctr[0].Cancel()
		},
	} {
		for _, lost := range []int{0, 3} {
			p := newPair(t, 1408).connect()
			p.receive(1, 0, 10)
			p.receive(0, 0, 10)
			p.runUntilIdle()
			var notified promise
			_, o := p.ctr[1].NotifyDisconnect(notified.finish)
			p.must(o)
			p.loseFirst(1, lost, wire.CtlDREQ)
			end(p)
			p.pass(time.Second)
			p.outcomes(0, OutcomeCanceled)
			p.outcomes(1, OutcomeCanceled)
			notified.must(t, OutcomeSuccess)
			if p.ctr[1].State() != CtrLost {
				t.Errorf("%s: %v", name, p.ctr[1].State())
			}
			p.clean()
		}
	}
}

// A peer that acknowledges nothing for 5 s is lost (PROTOCOL §9.3).
func TestDeadPeer(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(0, 1000, 10)
	p.link[1].mangle = func([]byte) bool { return false }
	p.post(0, p.write(0, 0, 10))
	p.post(0, p.write(0, 0, 10))
	p.pass(4900 * time.Millisecond)
	p.outcomes(0)
	p.pass(2 * time.Second)
	p.outcomes(0, OutcomeIOTimeout, OutcomeCanceled, OutcomeCanceled)
	if s := p.eng[0].Stats(); s.Timeouts < recovery.MinExpiries {
		t.Errorf("given up after %d time-outs", s.Timeouts)
	}
	p.link[1].mangle = nil
	p.clean()
}

// A process that was stopped for long finds that the peer made no progress for too long. If it has sent only one probe, it does not
// end the connection but probes on.
func TestPeerIsNotDeadBeforeItWasAskedOften(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.link[1].mangle = func([]byte) bool { return false }
	p.post(0, p.write(0, 0, 10))
	p.runUntilIdle()
	p.now = p.now.Add(2 * p.eng[0].cfg.DeadPeer)
	for p.ctr[0].State() == CtrEstablished && p.eng[0].Stats().Timeouts < recovery.MinExpiries-2 { // the peer answers once more
		p.pass(10 * time.Millisecond)
	}
	p.outcomes(0)
	p.link[1].mangle = nil
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
}

// A connection without packets for 10 s sends PING. It stays open if the peer answers, and is lost if five PINGs stay unanswered
// (PROTOCOL §9.5).
func TestKeepAlive(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.pass(5 * time.Minute) // idle and alive
	if p.ctr[0].State() != CtrEstablished || p.ctr[1].State() != CtrEstablished {
		t.Fatal("an idle connection ended")
	}
	in := p.eng[0].Stats().PacketsIn
	p.pass(time.Minute)
	if n := p.eng[0].Stats().PacketsIn - in; n < 5 || n > 30 {
		t.Errorf("%d packets in an idle minute", n)
	}
	p.receive(0, 0, 10)
	p.link[0].mangle = func([]byte) bool { return false }
	p.pass(20 * time.Second)
	p.outcomes(0, OutcomeCanceled)
	if p.ctr[0].State() != CtrLost {
		t.Error(p.ctr[0].State())
	}
}

// A peer that lost the connection sends RST with the reset token as proof (PROTOCOL §7.4).
func TestResetByAPeerThatLostItsState(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.receive(0, 0, 10)
	p.conn(1).vanish()
	p.qp[1].conn = nil
	p.post(0, p.write(0, 0, 10)) // shorter than an RST, so only the following PING is answered
	p.pass(time.Second)
	p.outcomes(0, OutcomeCanceled, OutcomeCanceled)
	if p.ctr[0].State() != CtrLost {
		t.Error(p.ctr[0].State())
	}
	p.clean()
}

func TestFlush(t *testing.T) {
	p := newPair(t, 1408)
	p.receive(0, 0, 10)
	p.qp[0].Flush() // idle, and still usable
	p.runUntilIdle()
	p.outcomes(0, OutcomeCanceled)
	p.connect()
	p.receive(0, 0, 10)
	p.receive(1, 0, 10)
	p.runUntilIdle()
	p.loseFirst(1, 1, wire.OpWrite)
	p.post(0, p.write(0, 0, 10))
	p.post(0, p.read(0, 10))
	p.turn()
	p.qp[0].Flush()
	p.runUntilIdle()
	p.outcomes(0, OutcomeCanceled, OutcomeCanceled, OutcomeCanceled)
	p.post(0, p.write(0, 0, 10))
	p.receive(0, 0, 10)
	p.runUntilIdle()
	p.outcomes(0, OutcomeCanceled, OutcomeCanceled)
	p.pass(time.Second)
	if p.ctr[0].State() != CtrEstablished || p.qp[0].State() != QPError {
		t.Error(p.ctr[0].State(), p.qp[0].State())
	}
	p.outcomes(1)
	p.post(1, p.send(1, 10)) // needs the flushed queue pair
	p.runUntilIdle()
	p.outcomes(1, OutcomeRemoteError, OutcomeCanceled)
	p.clean()
}

func TestCompletionQueueOverrun(t *testing.T) {
	p := newPair(t, 1408)
	small := NewCQ(4)
	p.qp[0] = p.eng[0].NewQP(QPConfig{
		ReceiveCQ: p.cq[0], InitiatorCQ: small, ReceiveDepth: 8, InitiatorDepth: 8, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	p.connect()
	p.receive(1, 0, 10)
	p.receive(0, 0, 10)
	p.runUntilIdle()
	for range 6 {
		p.post(0, p.write(0, 0, 10))
	}
	p.runUntilIdle()
	if !small.Faulted() || p.ctr[0].State() != CtrLost || p.ctr[1].State() != CtrLost {
		t.Error(small.Faulted(), p.ctr[0].State(), p.ctr[1].State())
	}
	rs := make([]Result, 8)
	if n := small.Fetch(rs); n != 4 {
		t.Errorf("%d results are left to fetch", n)
	}
	p.outcomes(0, OutcomeCanceled)
	p.outcomes(1, OutcomeCanceled)
	p.clean()
}
