package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// meeting is a listener on engine 1 and a connection attempt from engine 0, with its results.
type meeting struct {
	*pair
	l                                   *Listener
	at                                  wire.Endpoint
	got, connected, completed, accepted promise
}

func newMeeting(t *testing.T, backlog int) *meeting {
	m := &meeting{pair: newPair(t, 1408)}
	m.l = m.eng[1].NewListener()
	var o Outcome
	m.at, o = m.l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort})
	m.must(o)
	m.must(m.l.Listen(backlog))
	m.ctr[0], m.ctr[1] = m.eng[0].NewConnector(), m.eng[1].NewConnector()
	return m
}

func (m *meeting) connect() *meeting {
	m.tb.Helper()
	m.must(m.ctr[0].connect(m.qp[0], wire.Endpoint{IP: pairIP[0]}, m.at, m.limits[0], m.connected.finish))
	return m
}

func (m *meeting) get() *meeting {
	m.tb.Helper()
	m.must(m.l.GetRequest(m.ctr[1], m.got.finish))
	return m
}

func (m *meeting) accept() *meeting {
	m.tb.Helper()
	m.must(m.ctr[1].Accept(m.qp[1], m.limits[1], m.accepted.finish))
	return m
}

func (m *meeting) complete() *meeting {
	m.tb.Helper()
	m.must(m.ctr[0].CompleteConnect(m.completed.finish))
	return m
}

// clean fails the test if anything is left after a while.
func (m *meeting) clean() {
	m.tb.Helper()
	m.pass(20 * time.Second)
	for i := range 2 {
		if s := m.eng[i].Stats(); s.Connections != 0 || s.IllegalTransitions != 0 || m.eng[i].directory.peers.Len() != 0 || m.eng[i].directory.tuples.Len() != 0 {
			m.tb.Errorf("engine %d: %+v, %d peers, %d tuples", i, s, m.eng[i].directory.peers.Len(), m.eng[i].directory.tuples.Len())
		}
	}
}

func TestRejectWithPrivateData(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.got.must(t, OutcomeSuccess)
	m.must(m.ctr[1].Reject([]byte("no")))
	m.runUntilIdle()
	m.connected.must(t, OutcomeRefused)
	if private, o := m.ctr[0].Private(); o != OutcomeSuccess || string(private) != "no" {
		t.Errorf("%q %v", private, o)
	}
	if m.qp[0].State() != QPIdle || m.ctr[0].State() != CtrBound || m.ctr[1].State() != CtrDone {
		t.Error(m.qp[0].State(), m.ctr[0].State(), m.ctr[1].State())
	}
	m.clean()
}

// refusedOnce waits for the repeated request. The listener must recognize it as the rejected request, not as a second one.
func (m *meeting) refusedOnce() {
	m.tb.Helper()
	var second promise
	m.must(m.l.GetRequest(m.eng[1].NewConnector(), second.finish))
	m.pass(1100 * time.Millisecond)
	m.connected.must(m.tb, OutcomeRefused)
	if second.times != 0 {
		m.tb.Error("one request was delivered twice")
	}
	m.clean()
}

// The REJ is lost and the request is repeated. The request gets REJ again and does not become a second request.
func TestRepeatedRequestAfterReject(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.loseFirst(0, 1, wire.CtlREJ)
	m.must(m.ctr[1].Reject(nil))
	m.refusedOnce()
}

// The REJ is lost for longer than other connections linger. The repeated request still counts as the same one.
func TestRejectionLostForLong(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.link[0].mangle = func(b []byte) bool { return opcode(b) != wire.CtlREJ }
	m.must(m.ctr[1].Reject(nil))
	m.pass(1500 * time.Millisecond)
	m.link[1].mangle = func([]byte) bool { return false }
	m.pass(2400 * time.Millisecond)
	m.link[0].mangle, m.link[1].mangle = nil, nil
	m.refusedOnce()
}

func TestNobodyListens(t *testing.T) {
	m := newMeeting(t, 1)
	m.at.Port++
	m.connect().runUntilIdle()
	m.connected.must(t, OutcomeRefused)
	m.clean()
}

func TestBacklogFull(t *testing.T) {
	m := newMeeting(t, 1).connect()
	m.runUntilIdle()
	if m.connected.times != 0 {
		t.Fatal("the first one waits in the queue")
	}
	var second promise
	ctr := m.eng[0].NewConnector()
	qp := m.eng[0].NewQP(QPConfig{ReceiveCQ: m.cq[0], InitiatorCQ: m.cq[0], ReceiveDepth: 1, InitiatorDepth: 1})
	m.must(ctr.connect(qp, wire.Endpoint{IP: pairIP[0]}, m.at, ConnectParams{}, second.finish))
	m.runUntilIdle()
	second.must(t, OutcomeRefused)
	m.l.Close()
	m.runUntilIdle()
	m.connected.must(t, OutcomeRefused)
	m.clean()
}

func TestPeerIsNotThere(t *testing.T) {
	m := newMeeting(t, 1)
	m.link[1].mangle = func([]byte) bool { return false }
	m.connect().pass(4900 * time.Millisecond)
	if m.connected.times != 0 {
		t.Fatal("too early")
	}
	m.pass(200 * time.Millisecond)
	m.connected.must(t, OutcomeIOTimeout)
	m.link[1].mangle = nil
	m.connected = promise{}
	m.get().connect().runUntilIdle() // the same connector and queue pair can connect again
	m.got.must(t, OutcomeSuccess)
	m.ctr[0].Close()
	m.ctr[1].Close()
	m.clean()
}

// A repeated REQ gets the answer of the table in PROTOCOL §7.3, in each state of the passive side.
func TestRequestThatComesTwiceMakesOneConnection(t *testing.T) {
	m := newMeeting(t, 0).get()
	var req *forged
	var extra promise
	m.must(m.l.GetRequest(m.eng[1].NewConnector(), extra.finish))
	m.link[1].mangle = func(b []byte) bool {
		if opcode(b) == wire.CtlREQ && req == nil {
			req = &forged{body: append([]byte(nil), b[wire.BaseHeaderLen:]...)}
			req.fields.Number = uint64(wire.BaseHeader(b).Number())
			for range 2 {
				m.inject(1, &forged{body: req.body, fields: req.fields, from: m.reqFrom()})
			}
		}
		return true
	}
	again := func() {
		m.inject(1, &forged{body: req.body, fields: req.fields, from: m.reqFrom()})
		m.runUntilIdle()
	}
	m.connect().runUntilIdle()
	again()
	m.accept().runUntilIdle()
	again()
	m.complete().runUntilIdle()
	again()
	m.completed.must(t, OutcomeSuccess)
	m.accepted.must(t, OutcomeSuccess)
	m.post(0, m.write(0, 0, 10))
	m.runUntilIdle()
	m.outcomes(0, OutcomeSuccess)
	m.ctr[0].Close()
	m.runUntilIdle()
	again() // also when the connection is over: a copy that the network delayed for long
	if extra.times != 0 {
		t.Error("a repeated request was delivered")
	}
	if s := m.eng[1].Stats(); s.Established != 1 {
		t.Errorf("%+v", s)
	}
	m.clean()
}

// reqFrom returns the endpoint that the active side's packets come from.
func (m *meeting) reqFrom() wire.Endpoint { return m.link[0].paths[1].local }

func TestSlowApplicationsDoNotTimeOut(t *testing.T) {
	m := newMeeting(t, 1).connect()
	m.pass(time.Minute)
	m.get()
	m.got.must(t, OutcomeSuccess)
	m.pass(time.Minute)
	m.accept().pass(time.Minute)
	m.connected.must(t, OutcomeSuccess)
	m.complete().runUntilIdle()
	m.completed.must(t, OutcomeSuccess)
	m.accepted.must(t, OutcomeSuccess)
}

// REPACK reports that the peer's application is thinking. From then on REP is a probe, sent once in MaxRetry.
func TestRepackSlowsREPDown(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	reps := 0
	m.link[0].mangle = func(b []byte) bool {
		if opcode(b) == wire.CtlREP {
			reps++
		}
		return true
	}
	m.accept().pass(5*lifetime.MaxRetry + lifetime.MaxRetry/2)
	if reps != 6 {
		t.Errorf("%d REPs in five and a half seconds, want one and five probes", reps)
	}
}

func TestDataStandsInForALostRTU(t *testing.T) {
	for _, op := range []wire.Opcode{wire.CtlRTU, blocksAlone} {
		m := newMeeting(t, 1).get().connect()
		m.runUntilIdle()
		m.accept().runUntilIdle()
		side := 0
		if op == wire.CtlRTU {
			side = 1
		}
		m.loseFirst(side, 3, op)
		m.complete().runUntilIdle()
		if m.completed.times != 0 {
			t.Fatal("completed without an answer")
		}
		if op == blocksAlone { // the passive side is established, and sends first
			m.accepted.must(t, OutcomeSuccess)
			m.post(1, m.write(1, 0, 10))
			m.runUntilIdle()
			m.completed.must(t, OutcomeSuccess)
			m.outcomes(1, OutcomeSuccess)
			continue
		}
		m.pass(time.Second)
		m.completed.must(t, OutcomeSuccess)
		m.accepted.must(t, OutcomeSuccess)
	}
}

func TestCancelOfConnectReachesThePeer(t *testing.T) {
	for _, delivered := range []bool{false, true} {
		m := newMeeting(t, 1)
		if delivered {
			m.get()
		}
		m.connect().runUntilIdle()
		m.ctr[0].Cancel()
		m.connected.must(t, OutcomeCanceled)
		m.runUntilIdle()
		if delivered {
			if o := m.ctr[1].Accept(m.qp[1], m.limits[1], m.accepted.finish); o != OutcomeAborted {
				t.Errorf("Accept: %v", o)
			}
		} else if len(m.l.queue) != 0 {
			t.Error("the request did not vanish")
		}
		m.clean()
	}
}

// Cancel crosses the accept on the way: the peer accepts a canceled request and then learns of the cancelation.
func TestLateAcceptOfACanceledConnect(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.loseFirst(1, 1, wire.CtlRST)
	m.ctr[0].Cancel()
	m.accept().runUntilIdle()
	m.accepted.must(t, OutcomeAborted)
	if m.ctr[0].State() != CtrDone {
		t.Error(m.ctr[0].State())
	}
	m.clean()
}

func TestDeclineAfterAccept(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.accept().runUntilIdle()
	m.loseFirst(1, 1, wire.CtlREJ)
	m.must(m.ctr[0].Reject([]byte("changed my mind")))
	m.pass(1500 * time.Millisecond)
	m.accepted.must(t, OutcomeDeclined)
	if m.qp[0].State() != QPIdle || m.qp[1].State() != QPIdle {
		t.Error(m.qp[0].State(), m.qp[1].State())
	}
	m.clean()
}

func TestPassiveWithdraws(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.accept().runUntilIdle()
	m.ctr[1].Cancel()
	m.accepted.must(t, OutcomeCanceled)
	m.runUntilIdle()
	if o := m.ctr[0].CompleteConnect(m.completed.finish); o != OutcomeAborted {
		t.Error(o)
	}
	m.clean()
}

// The active side gives up while RTU is on its way. The peer, which is connected, sees an abort.
func TestCancelOfCompleteConnect(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.receive(1, 0, 10)
	m.runUntilIdle()
	m.accept().runUntilIdle()
	m.link[0].mangle = func([]byte) bool { return false }
	m.complete().runUntilIdle()
	m.accepted.must(t, OutcomeSuccess)
	m.ctr[0].Cancel()
	m.completed.must(t, OutcomeCanceled)
	m.runUntilIdle()
	m.outcomes(1, OutcomeCanceled)
	if m.ctr[1].State() != CtrLost {
		t.Error(m.ctr[1].State())
	}
	m.link[0].mangle = nil
	m.clean()
}

func TestCrossingConnectsMakeTwoConnections(t *testing.T) {
	p := newPair(t, 1408)
	var done [2]promise
	var got [2]promise
	var passive [2]*Connector
	for i := range 2 {
		l := p.eng[i].NewListener()
		_, o := l.Bind(wire.Endpoint{IP: pairIP[i], Port: pairPort})
		p.must(o)
		p.must(l.Listen(1))
		passive[i] = p.eng[i].NewConnector()
		p.must(l.GetRequest(passive[i], got[i].finish))
		p.ctr[i] = p.eng[i].NewConnector()
	}
	for i := range 2 {
		at := wire.Endpoint{IP: pairIP[1-i], Port: pairPort}
		p.must(p.ctr[i].connect(p.qp[i], wire.Endpoint{IP: pairIP[i]}, at, ConnectParams{}, done[i].finish))
	}
	p.runUntilIdle()
	for i := range 2 {
		got[i].must(t, OutcomeSuccess)
		qp := p.eng[i].NewQP(QPConfig{ReceiveCQ: p.cq[i], InitiatorCQ: p.cq[i], ReceiveDepth: 1, InitiatorDepth: 1})
		p.must(passive[i].Accept(qp, ConnectParams{}, func(Outcome) {}))
	}
	p.runUntilIdle()
	for i := range 2 {
		done[i].must(t, OutcomeSuccess)
	}
}

func TestReadLimits(t *testing.T) {
	// The columns are the read limits (in, out) of the active and the passive side, and the limits that each gets: the worked
	// examples of the ND specification, 7.2.
	for _, c := range [][8]uint32{
		{4, 8, 16, 16, 8, 4, 8, 4},
		{4, 8, 2, 1, 8, 4, 2, 1},
		{0, 8, 8, 8, 8, 0, 8, 0},
		{0, 0, 16, 16, 0, 0, 0, 0},
		{16, 16, 0, 0, 16, 16, 0, 0},
		{1 << 31, 1000, 100, 100, 32, 32, 32, 32},
		{6, 0, 0, 0, 0, 6, 0, 0},
		{1, 1, 0, 5, 1, 1, 0, 1},
	} {
		m := newMeeting(t, 1)
		m.limits = [2]ConnectParams{{Inbound: c[0], Outbound: c[1]}, {Inbound: c[2], Outbound: c[3]}}
		m.get().connect().runUntilIdle()
		in, out, _ := m.ctr[1].ReadLimits()
		m.accept().runUntilIdle()
		pin, pout, _ := m.ctr[1].ReadLimits()
		ain, aout, _ := m.ctr[0].ReadLimits()
		if in != c[4] || out != c[5] || pin != c[6] || aout != c[6] || pout != c[7] || ain != c[7] {
			t.Errorf("%v: %d %d before, %d %d and %d %d after", c, in, out, pin, pout, ain, aout)
		}
	}
}

// An attempt whose application is thinking survives the loss of five messages of six: a lost probe is repeated before the next one
// is due.
func TestLostProbesOfAHandshake(t *testing.T) {
	p := newPair(t, 1408)
	l := p.eng[1].NewListener()
	at, o := l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort})
	p.must(o)
	p.must(l.Listen(1))
	var got, connected, accepted, completed promise
	p.ctr[0], p.ctr[1] = p.eng[0].NewConnector(), p.eng[1].NewConnector()
	p.must(l.GetRequest(p.ctr[1], got.finish))
	p.must(p.ctr[0].connect(p.qp[0], wire.Endpoint{IP: pairIP[0]}, at, p.limits[0], connected.finish))
	n := 0
	lose := func([]byte) bool {
		n++
		return n%6 == 0
	}
	p.runUntilIdle()
	p.link[1].mangle = lose // REQ, as a probe
	p.pass(60 * time.Second)
	p.link[1].mangle = nil
	p.must(p.ctr[1].Accept(p.qp[1], p.limits[1], accepted.finish))
	p.runUntilIdle()
	connected.must(t, OutcomeSuccess)
	p.link[0].mangle = lose // REP, as a probe
	p.pass(60 * time.Second)
	p.must(p.ctr[0].CompleteConnect(completed.finish))
	p.pass(2 * time.Second)
	completed.must(t, OutcomeSuccess)
	accepted.must(t, OutcomeSuccess)
}

// Any packet of the peer shows that its provider is alive. An accept does not time out while such packets arrive, although the
// answers to REP are lost.
func TestWhateverThePeerSaysKeepsAnAttempt(t *testing.T) {
	m := newMeeting(t, 1).get().connect()
	m.runUntilIdle()
	m.loseFirst(1, 100, wire.CtlREPACK)
	m.accept().pass(8 * time.Second)
	m.connected.must(t, OutcomeSuccess)
	if m.accepted.times != 0 {
		t.Fatalf("accept ended with %v, and %d challenges came", m.accepted.outcome, m.eng[0].Stats().Challenges)
	}
	m.complete().pass(time.Second)
	m.completed.must(t, OutcomeSuccess)
	m.accepted.must(t, OutcomeSuccess)
}
