package provider

import (
	"errors"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/wire"
)

// seek begins to connect. Its link is still looking for the path to the peer.
func (m *meeting) seek(stops *int) *meeting {
	m.tb.Helper()
	m.must(m.ctr[0].Begin(m.qp[0], wire.Endpoint{IP: pairIP[0]}, m.at, m.limits[0], func() { *stops++ }, m.connected.finish))
	return m
}

// reached reports that the path of an attempt was found, and sends the request.
func (m *meeting) reached(k *Connector) {
	m.tb.Helper()
	o, err := k.Reached()
	if m.must(o); err != nil {
		m.tb.Fatal(err)
	}
}

// However an attempt ends, the search for its path ends exactly once, and the request never leaves.
func TestSearchEndsWithItsAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(m *meeting)
		want  Outcome
		state ConnectorState
		qp    QPState
	}{
		"cancel":         {func(m *meeting) { m.ctr[0].Cancel() }, OutcomeCanceled, CtrDone, QPIdle},
		"cancel pending": {func(m *meeting) { m.ctr[0].CancelPending() }, OutcomeCanceled, CtrDone, QPIdle},
		"close":          {func(m *meeting) { m.ctr[0].Close() }, OutcomeCanceled, CtrDone, QPIdle},
		"queue pair":     {func(m *meeting) { m.qp[0].Release() }, OutcomeCanceled, CtrDone, QPClosed},
		"shutdown":       {func(m *meeting) { m.eng[0].Shutdown() }, OutcomeDeviceRemoved, CtrDone, QPClosed},
		"no neighbour":   {func(m *meeting) { m.ctr[0].NotReached(OutcomeHostUnreachable) }, OutcomeHostUnreachable, CtrBound, QPIdle},
		"no route":       {func(m *meeting) { m.ctr[0].NotReached(OutcomeNetworkUnreachable) }, OutcomeNetworkUnreachable, CtrBound, QPIdle},
		"found late":     {func(m *meeting) { m.ctr[0].NotReached(OutcomeAddressExists) }, OutcomeAddressExists, CtrDone, QPIdle},
	} {
		t.Run(name, func(t *testing.T) {
			m, stops := newMeeting(t, 1), 0
			m.seek(&stops)
			if m.ctr[0].State() != CtrConnecting || m.qp[0].State() != QPAttached {
				t.Fatalf("connector %v, queue pair %v", m.ctr[0].State(), m.qp[0].State())
			}
			c.end(m)
			m.connected.must(t, c.want)
			if k, qp := m.ctr[0].State(), m.qp[0].State(); k != c.state || qp != c.qp || stops != 1 {
				t.Errorf("connector %v, queue pair %v, search stopped %d times", k, qp, stops)
			}
			if o, _ := m.ctr[0].Reached(); o != OutcomeCanceled {
				t.Errorf("reached after the end: %v", o)
			}
			m.ctr[0].NotReached(OutcomeHostUnreachable)
			m.clean()
			if n := m.eng[1].Stats().PacketsIn; n != 0 {
				t.Errorf("%d packets reached the peer", n)
			}
		})
	}
}

func TestSearchLeadsToARequest(t *testing.T) {
	m, stops := newMeeting(t, 1), 0
	m.seek(&stops).get()
	if at, o := m.ctr[0].Local(); o != OutcomeSuccess || at.IP != pairIP[0] || at.Port == 0 {
		t.Errorf("local address %v, %v", at, o)
	}
	m.pass(10 * time.Second) // no time-out ends the search
	m.reached(m.ctr[0])
	if stops != 1 {
		t.Errorf("the search was stopped %d times", stops)
	}
	m.runUntilIdle()
	m.got.must(t, OutcomeSuccess)
	m.accept().runUntilIdle()
	m.connected.must(t, OutcomeSuccess)
	m.complete().runUntilIdle()
	m.completed.must(t, OutcomeSuccess)
	m.accepted.must(t, OutcomeSuccess)
}

// Two connectors of one shared endpoint search for the path to the same peer. The second one to find it fails, because the first
// one's connection exists.
func TestSharedEndpointClashFoundLate(t *testing.T) {
	m := newMeeting(t, 2)
	shared, o := m.eng[0].NewSharedEndpoint(wire.Endpoint{IP: pairIP[0]})
	m.must(o)
	var done [2]promise
	ctr := [2]*Connector{m.eng[0].NewConnector(), m.eng[0].NewConnector()}
	other := m.eng[0].NewQP(QPConfig{ReceiveCQ: m.cq[0], InitiatorCQ: m.cq[0], ReceiveDepth: 1, InitiatorDepth: 1})
	for i, qp := range []*QP{m.qp[0], other} {
		m.must(ctr[i].BindShared(shared))
		m.must(ctr[i].Begin(qp, wire.Endpoint{}, m.at, ConnectParams{}, func() {}, done[i].finish))
	}
	m.reached(ctr[0])
	late, _ := ctr[1].Reached()
	ctr[1].NotReached(late)
	done[1].must(t, OutcomeAddressExists)
	if late != OutcomeAddressExists || ctr[1].State() != CtrDone || other.State() != QPIdle {
		t.Errorf("%v, connector %v, queue pair %v (C13)", late, ctr[1].State(), other.State())
	}
}

// The private data of a rejection are not returned for a later attempt that the peer did not answer.
func TestRejectionIsForgottenByTheNextAttempt(t *testing.T) {
	m := newMeeting(t, 1)
	m.get().connect().runUntilIdle()
	m.must(m.ctr[1].Reject([]byte("no")))
	m.runUntilIdle()
	m.connected.must(t, OutcomeRefused)
	if data, o := m.ctr[0].Private(); o != OutcomeSuccess || string(data) != "no" {
		t.Fatalf("private data %q, %v", data, o)
	}
	m.link[1].mangle = func([]byte) bool { return false }
	m.connected = promise{}
	m.connect().pass(10 * time.Second)
	m.connected.must(t, OutcomeIOTimeout)
	if data, o := m.ctr[0].Private(); o != OutcomeConnectionInvalid {
		t.Errorf("private data %q, %v, want none", data, o)
	}
}

// The size of private data is checked before the state of the queue pair (ND specification 7.5).
func TestConnectLooksAtPrivateDataBeforeTheQueuePair(t *testing.T) {
	m := newMeeting(t, 1)
	m.connect()
	long := ConnectParams{Private: make([]byte, MaxPrivateData+1)}
	for _, c := range []struct {
		params ConnectParams
		want   Outcome
	}{{long, OutcomeInvalidBufferSize}, {ConnectParams{}, OutcomeConnectionActive}} {
		if o := m.eng[0].NewConnector().connect(m.qp[0], wire.Endpoint{IP: pairIP[0]}, m.at, c.params, m.got.finish); o != c.want {
			t.Errorf("%d bytes with a busy queue pair: %v, want %v", len(c.params.Private), o, c.want)
		}
	}
	m.qp[0].Release()
	if o := m.eng[0].NewConnector().connect(m.qp[0], wire.Endpoint{IP: pairIP[0]}, m.at, long, m.got.finish); o != OutcomeInvalidBufferSize {
		t.Errorf("too many bytes with a spent queue pair: %v", o)
	}
}

// A queue holds at most guard.MaxBacklog requests, whatever backlog the application asked for (PROTOCOL §7.5).
func TestBacklogHasABound(t *testing.T) {
	for _, asked := range []int{0, -1, guard.MaxBacklog, guard.MaxBacklog + 1, 1 << 30} {
		if m := newMeeting(t, asked); m.l.backlog != guard.MaxBacklog {
			t.Errorf("asked for %d: the queue holds %d", asked, m.l.backlog)
		}
	}
}

// A connector that receives a request releases the port that it was bound to (ND specification 6.3).
func TestRequestTakesTheBindingsPlace(t *testing.T) {
	m := newMeeting(t, 1)
	own := wire.Endpoint{IP: pairIP[1], Port: pairPort + 1}
	m.must(m.ctr[1].Bind(own))
	m.get().connect().runUntilIdle()
	m.got.must(t, OutcomeSuccess)
	m.must(m.eng[1].NewConnector().Bind(own))
	if at, o := m.ctr[1].Local(); o != OutcomeSuccess || at != m.at {
		t.Errorf("local address %v, %v, want the listener's", at, o)
	}
}

// TestAttemptWithoutAPathLeavesNothing: if the link of one side has no path, the connection made for the attempt is freed.
// Otherwise each attempt, or each request of an attacker, would keep a slot of the table.
func TestAttemptWithoutAPathLeavesNothing(t *testing.T) {
	for side, want := range [2]Outcome{OutcomeHostUnreachable, OutcomeSuccess} {
		m, stops := newMeeting(t, 1), 0
		m.link[side].noPath = true
		m.seek(&stops)
		if o, err := m.ctr[0].Reached(); o != want || errors.Is(err, errNoPath) != (o != OutcomeSuccess) {
			t.Fatalf("side %d: %v, %v", side, o, err)
		}
		m.pass(100 * time.Millisecond) // the request is repeated several times
		if n := m.eng[side].Stats().Connections; n != 0 {
			t.Errorf("side %d keeps %d connections", side, n)
		}
		m.ctr[0].Close()
		m.link[side].noPath = false
		m.pass(20 * time.Second)
		m.clean()
	}
}

// promise keeps the outcome of a pending request.
type promise struct {
	outcome Outcome
	times   int
}

func (f *promise) finish(o Outcome) { f.outcome, f.times = o, f.times+1 }

func (f *promise) must(tb testing.TB, want Outcome) {
	tb.Helper()
	if f.times != 1 || f.outcome != want {
		tb.Fatalf("finished %d times with %v, want once with %v", f.times, f.outcome, want)
	}
}

// connect is Begin followed by Reached, as for links that reach every peer at once. fin is called if and only if the outcome is success.
func (k *Connector) connect(qp *QP, local, remote addrPort, params ConnectParams, fin Finish) Outcome {
	if o := k.Begin(qp, local, remote, params, func() {}, fin); o != OutcomeSuccess {
		return o
	}
	o, _ := k.Reached()
	if o != OutcomeSuccess {
		k.pending = nil
		k.NotReached(o)
	}
	return o
}
