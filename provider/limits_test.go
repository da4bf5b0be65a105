package provider

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// inject delivers a forged packet to side 1. It returns the packets that side 1 sends to anybody but side 0.
func (w *world) inject(f *forged) (answers [][]byte) { return w.injectAndWait(f, 0) }

// injectAndWait returns the answers of the next d, too.
func (w *world) injectAndWait(f *forged, d time.Duration) (answers [][]byte) {
	before := w.sent
	w.sent = func(a flight) bool {
		if a.at.IP == f.from.IP {
			answers = append(answers, a.data)
		}
		return a.at.IP == pairIP[0] || a.to == 1
	}
	w.lane[1].arrive(flight{to: 1, from: f.from, at: wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}, data: f.bytes()})
	w.eng[1].Run(w.now)
	if d > 0 {
		w.now = w.now.Add(d)
		w.eng[1].Run(w.now)
	}
	w.sent = before
	return answers
}

// admits injects a REQ, and reports whether it becomes a connection without an answer at once.
func (w *world) admits(f *forged) bool {
	before := w.eng[1].Stats().Connections
	answers := w.inject(f)
	return len(answers) == 0 && w.eng[1].Stats().Connections == before+1
}

// prove sends a REQ, repeats it with the cookie that the answer demands, and returns the last answer.
func (w *world) prove(from [16]byte, id uint64, nd uint16) wire.Opcode {
	answers := w.injectAndWait(stranger(from, id, nd, nil, nil), lifetime.ThinkTime)
	if len(answers) == 1 && opcode(answers[0]) == wire.CtlRETRY {
		answers = w.injectAndWait(stranger(from, id, nd, contents(answers[0])[wire.ControlHeaderLen:], nil), lifetime.ThinkTime)
	}
	if len(answers) != 1 {
		return 0
	}
	return opcode(answers[0])
}

// The number of waiting requests never exceeds the maximum, however large a backlog the application asks for.
func TestBacklogHasAnUpperBound(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	l := w.eng[1].NewListener()
	_, o := l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort + 1})
	if o != OutcomeSuccess || l.Listen(1<<20) != OutcomeSuccess {
		t.Fatal("the listener does not listen")
	}
	for i := range uint64(guard.MaxBacklog + 100) {
		req := func(cookie []byte) *forged {
			f := stranger(address(uint32(i)), 1+i*997, uint16(i), cookie, nil)
			binary.BigEndian.PutUint16(f.body[wire.ControlHeaderLen+18:], pairPort+1)
			return f
		}
		answers := w.inject(req(nil))
		if len(answers) == 1 && opcode(answers[0]) == wire.CtlRETRY {
			w.inject(req(contents(answers[0])[wire.ControlHeaderLen:]))
		}
		w.now += 1000
	}
	if waiting := l.Queued(); waiting != guard.MaxBacklog {
		t.Errorf("%d requests wait, want %d", waiting, guard.MaxBacklog)
	}
	if s := w.eng[1].Stats(); s.Drops[wire.DropBacklog] != 100 || s.Refused != 0 {
		t.Errorf("further ones: %d are dropped and %d refused, want 100 and none", s.Drops[wire.DropBacklog], s.Refused)
	}
}

// A REQ gets no REJ, and is repeated until there is room, in two cases: its source has the maximum of half-open connections, or a
// listener without its own limit has a full queue.
func TestConnectWaitsForTheRequestsBeforeIt(t *testing.T) {
	for name, crowd := range map[string]func(w *world, from, to guard.Share){
		"of its source": func(w *world, from, to guard.Share) {
			for range guard.MaxSourceHalfOpen {
				w.eng[1].guard.Sources.Move(guard.SourceOf(pairIP[0]), from, to)
			}
		},
		"of all": func(w *world, _, to guard.Share) {
			w.l.queue = nil
			if to == guard.ShareHalfOpen {
				w.l.queue = make([]*conn, guard.MaxBacklog)
			}
		},
	} {
		w := newWorld(newLanes(), 64, Config{})
		w.listen()
		crowd(w, guard.ShareNone, guard.ShareHalfOpen)
		var got, connected promise
		ctr := [2]*Connector{w.eng[0].NewConnector(), w.eng[1].NewConnector()}
		at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
		if o := ctr[0].connect(w.qp[0], wire.Endpoint{IP: pairIP[0]}, at, ConnectParams{}, connected.finish); o != OutcomeSuccess {
			t.Fatal(o)
		}
		w.pass(time.Second, func() {})
		s := w.eng[1].Stats()
		if connected.times != 0 || s.Refused != 0 || s.Drops[wire.DropBacklog] < 2 {
			t.Errorf("%s: Connect finished %d times with %v, %d requests were refused, %d dropped", name, connected.times, connected.outcome, s.Refused, s.Drops[wire.DropBacklog])
		}
		crowd(w, guard.ShareHalfOpen, guard.ShareNone)
		if o := w.l.GetRequest(ctr[1], got.finish); o != OutcomeSuccess {
			t.Fatal(o)
		}
		w.pass(2*time.Second, func() {})
		if got.times != 1 || ctr[1].State() != CtrRequested {
			t.Errorf("%s: after they are answered the request does not arrive", name)
		}
	}
}

// A source with the maximum of established connections gets no more, also if it proves its address. Other sources do.
func TestEstablishedConnectionsOfOneSourceAreBounded(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	greedy := address(1)
	for range guard.MaxSourceConns - 1 {
		w.eng[1].guard.Sources.Move(guard.SourceOf(greedy), guard.ShareNone, guard.ShareEstablished)
	}
	if op := w.prove(greedy, 5, 5); op != wire.CtlPEND {
		t.Errorf("below the bound: %v", op)
	}
	w.eng[1].guard.Sources.Move(guard.SourceOf(greedy), guard.ShareNone, guard.ShareEstablished)
	if op := w.prove(greedy, 7, 7); op != wire.CtlREJ || w.eng[1].Stats().SourceLimited != 1 {
		t.Errorf("at the bound: %v, %d counted", op, w.eng[1].Stats().SourceLimited)
	}
	if op := w.prove(address(2), 9, 9); op != wire.CtlPEND {
		t.Errorf("another source: %v", op)
	}
}

// Requests for a port without a listener get at most a thousand REJs a second. Further ones are dropped.
func TestRejectionsOfStrangersAreBounded(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	rejected := 0
	for i := range uint64(guard.MaxRejects + 200) {
		f := stranger(address(uint32(i)), 1+i, uint16(i), nil, nil)
		binary.BigEndian.PutUint16(f.body[wire.ControlHeaderLen+18:], 1)
		for _, a := range w.inject(f) {
			if opcode(a) == wire.CtlREJ {
				rejected++
			}
		}
	}
	s := w.eng[1].Stats()
	if rejected != guard.MaxRejects || s.Drops[wire.DropRate] != 200 || s.Refused != guard.MaxRejects+200 {
		t.Errorf("%d rejections, %d dropped, %d refused", rejected, s.Drops[wire.DropRate], s.Refused)
	}
}

// Connections that have ended do not keep new requests out: after ten thousand ended connections, a host makes a thousand a second
// for ten more seconds, from fewer ports.
func TestClosedConnectionsRefuseNoNewOnes(t *testing.T) {
	closed, more := 10000, 10000
	if raceEnabled {
		closed, more = 300, 300 // the race detector is far slower, and fewer connections show the same
	}
	w := newWorld(newLanes(), 64, Config{Linger: time.Minute})
	w.listen()
	at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
	for i := range closed + more {
		var connected, completed promise
		ctr, qp := [2]*Connector{w.eng[0].NewConnector(), w.eng[1].NewConnector()}, [2]*QP{}
		for side := range qp {
			qp[side] = w.eng[side].NewQP(QPConfig{ReceiveCQ: w.cq[side], InitiatorCQ: w.cq[side], ReceiveDepth: 1, InitiatorDepth: 1})
		}
		if o := w.l.GetRequest(ctr[1], func(Outcome) {}); o != OutcomeSuccess {
			t.Fatal(o)
		}
		if o := ctr[0].connect(qp[0], wire.Endpoint{IP: pairIP[0]}, at, ConnectParams{}, connected.finish); o != OutcomeSuccess {
			t.Fatalf("connection %d: %v", i, o)
		}
		w.pass(0, func() {
			if ctr[1].State() == CtrRequested {
				_ = ctr[1].Accept(qp[1], ConnectParams{}, func(Outcome) {})
			}
			if ctr[0].State() == CtrAccepted {
				_ = ctr[0].CompleteConnect(completed.finish)
			}
		})
		if completed.times != 1 || completed.outcome != OutcomeSuccess {
			t.Fatalf("connection %d: Connect returned %v, CompleteConnect %v", i, connected.outcome, completed.outcome)
		}
		for side := range qp {
			ctr[side].Close()
		}
		gap := 100 * time.Microsecond
		if i >= closed {
			gap = time.Millisecond
		}
		w.pass(gap, func() {})
	}
	if s := w.eng[1].Stats(); s.Established != uint64(closed+more) || s.Refused != 0 || s.SourceLimited != 0 {
		t.Errorf("%+v", s)
	}
}

// Forged REQs that the application refuses at once are as few as REQs that wait.
func TestRefusedRequestsOfForgersNeedCookies(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	w.listen()
	w.sent = func(f flight) bool { return f.at.IP == pairIP[0] || f.at.IP == pairIP[1] }
	refused := 0
	w.l.OnRequest(func(k *Connector) {
		refused++
		if o := k.Reject(nil); o != OutcomeSuccess {
			t.Error(o)
		}
		k.Close()
	})
	for i := range uint64(4 * guard.Unproven) {
		w.inject(stranger(address(uint32(i)), 1+i*997, 5, nil, nil))
		w.now += 1000
	}
	if refused != guard.Unproven {
		t.Errorf("the application heard of %d requests, want %d", refused, guard.Unproven)
	}
	w.pass(20*time.Second, func() {})
	if n := w.eng[1].guard.Sources.Unproven(); n != 0 {
		t.Errorf("%d requests still count", n)
	}
	w.inject(stranger(address(1), 3, 5, nil, nil))
	if refused != guard.Unproven+1 {
		t.Error("later requests still need a cookie")
	}
}
