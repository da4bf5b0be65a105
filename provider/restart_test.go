package provider

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// If a peer has lost its state, that is detected at once. A peer that has not lost its state keeps its connections (PROTOCOL §7.3,
// §7.4).

var hostKey = [32]byte{1, 2, 3}

// restart replaces side 0 by a new engine, as if its process was killed and restarted.
func (w *world) restart(cfg Config) {
	carry := w.lane[0].carry
	w.lane[0].reset(carry)
	w.eng[0] = New(cfg, w.lane[0], w.mem[0], rand.New(rand.NewPCG(uint64(w.now), 8)))
	w.qp[0] = w.eng[0].NewQP(QPConfig{
		ReceiveCQ: w.cq[0], InitiatorCQ: w.cq[0], ReceiveDepth: 16, InitiatorDepth: 16, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	w.eng[0].Run(w.now)
}

// fromPort connects side 0 from ND port 7 to a new queue pair of side 1. It returns the connectors and how long Connect took.
func (w *world) fromPort(qp [2]*QP) (ctr [2]*Connector, o Outcome, took time.Duration) {
	ctr = [2]*Connector{w.eng[0].NewConnector(), w.eng[1].NewConnector()}
	if w.tls != nil {
		_ = ctr[0].UseTLS(w.tls)
	}
	var got, connected, accepted, completed promise
	_ = w.l.GetRequest(ctr[1], got.finish)
	began := w.now
	if o := ctr[0].connect(qp[0], wire.Endpoint{IP: pairIP[0], Port: 7}, wire.Endpoint{IP: pairIP[1], Port: pairPort}, ConnectParams{}, connected.finish); o != OutcomeSuccess {
		return ctr, o, 0
	}
	w.pass(2*time.Second, func() {
		if got.times == 1 && accepted.times == 0 && ctr[1].State() == CtrRequested {
			_ = ctr[1].Accept(qp[1], ConnectParams{}, accepted.finish)
		}
		if connected.times == 1 && took == 0 {
			took = w.now.Sub(began)
		}
		if ctr[0].State() == CtrAccepted {
			_ = ctr[0].CompleteConnect(completed.finish)
		}
	})
	if got.times == 0 {
		w.l.CancelRequests(OutcomeCanceled)
	}
	return ctr, connected.outcome, took
}

func (w *world) newQP(i int) *QP {
	return w.eng[i].NewQP(QPConfig{
		ReceiveCQ: w.cq[i], InitiatorCQ: w.cq[i], ReceiveDepth: 16, InitiatorDepth: 16, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
}

// The process of a peer restarts while data are in flight. With the key of the host it sends valid RSTs for its predecessor's
// connections, and posted requests end at once. With a key of its own it cannot, and the connection ends only by the peer's
// silence.
func TestDataForARestartedPeerEndAtOnce(t *testing.T) {
	for _, c := range []struct {
		key  [32]byte
		n    uint32
		ends bool
	}{{hostKey, 1000, true}, {hostKey, 8, true}, {[32]byte{9}, 1000, false}} {
		w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
		ctr, ok := w.connect(w.qp)
		if !ok {
			t.Fatal("no connection")
		}
		w.restart(Config{ResetKey: c.key})
		region := fuzzRegions()[1]
		from := w.now
		rtt := &w.qp[1].conn.rtt
		limit := time.Millisecond // RST answers the packet itself
		if c.n < 30 {             // the packet is too short for an answer: RST answers the PING that goes with the first time-out, after a probe
			limit += rtt.Probe() + rtt.Timeout(0)
		}
		if _, err := (&listed{SGL: []SGE{{Addr: region.Base(), Len: c.n, Token: region.Token()}}, Request: Request{Kind: KindWrite, Length: c.n, Addr: 1, Token: 1}}).post(w.qp[1]); err != OutcomeSuccess {
			t.Fatal(err)
		}
		ended := time.Duration(0)
		w.pass(2*time.Second, func() {
			if ctr[1].State() == CtrLost && ended == 0 {
				ended = w.now.Sub(from)
			}
		})
		if (ended != 0) != c.ends || ended > limit {
			t.Errorf("%d bytes, key %v: the connection ended after %v, want at most %v", c.n, c.key[0], ended, limit)
		}
		var rs [4]Result
		if n := w.cq[1].Fetch(rs[:]); c.ends && (n != 1 || rs[0].Outcome != OutcomeCanceled) {
			t.Errorf("%d bytes: %+v", c.n, rs[:n])
		}
		if d := w.eng[1].Stats().Drops[wire.DropRSTToken]; (d > 0) == c.ends {
			t.Errorf("%d bytes, key %v: %d resets were not believed", c.n, c.key[0], d)
		}
	}
}

// A killed client reconnects from its ND port and is accepted within a second, whether or not its host answers for the old
// connection.
func TestClientReturnsFromItsPort(t *testing.T) {
	for name, key := range map[string][32]byte{"the host's key": hostKey, "a key of its own": {9}} {
		w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
		old, o, _ := w.fromPort(w.qp)
		if o != OutcomeSuccess || old[1].State() != CtrEstablished {
			t.Fatal(o, old[1].State())
		}
		w.pass(3*time.Second, func() {})
		w.restart(Config{ResetKey: key})
		ctr, o, took := w.fromPort([2]*QP{w.qp[0], w.newQP(1)})
		if o != OutcomeSuccess || took > time.Second || ctr[1].State() != CtrEstablished {
			t.Errorf("%s: %v after %v, %v", name, o, took, ctr[1].State())
		}
		if old[1].State() != CtrLost || w.eng[1].Stats().Contested != 1 {
			t.Errorf("%s: the old connection is %v, contested %d times", name, old[1].State(), w.eng[1].Stats().Contested)
		}
	}
}

// A client that was killed in the middle of a handshake reconnects from the same ND port and is accepted within a second, however
// far its first attempt had come. For the application the first attempt has failed (PROTOCOL §7.3).
func TestClientReturnsInTheMiddleOfAHandshake(t *testing.T) {
	for name, steps := range map[string]int{"handed out": 1, "accepted": 2} {
		w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
		old := w.eng[1].NewConnector()
		var connected, got, accepted promise
		if steps > 0 {
			_ = w.l.GetRequest(old, got.finish)
		}
		at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
		if o := w.eng[0].NewConnector().connect(w.qp[0], wire.Endpoint{IP: pairIP[0], Port: 7}, at, ConnectParams{}, connected.finish); o != OutcomeSuccess {
			t.Fatal(o)
		}
		w.pass(100*time.Millisecond, func() {})
		if steps > 1 {
			if o := old.Accept(w.qp[1], ConnectParams{}, accepted.finish); o != OutcomeSuccess {
				t.Fatal(o)
			}
			w.pass(100*time.Millisecond, func() {})
		}
		w.restart(Config{ResetKey: hostKey})
		ctr, o, took := w.fromPort([2]*QP{w.qp[0], w.newQP(1)})
		if o != OutcomeSuccess || took > time.Second || ctr[1].State() != CtrEstablished {
			t.Errorf("%s: %v after %v, %v", name, o, took, ctr[1].State())
		}
		if steps == 1 {
			if o := old.Accept(w.qp[1], ConnectParams{}, accepted.finish); o != OutcomeAborted {
				t.Errorf("%s: the old request can be accepted: %v", name, o)
			}
		}
		if steps == 2 && (accepted.times != 1 || accepted.outcome != OutcomeAborted) {
			t.Errorf("%s: Accept ended %d times with %v", name, accepted.times, accepted.outcome)
		}
	}
}

// An attempt that waits in a listener's queue is replaced by a later attempt of its client. The application gets only the later
// one.
func TestClientReturnsToTheQueue(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
	var connected [2]promise
	var got, accepted promise
	at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
	for i := range connected {
		if o := w.eng[0].NewConnector().connect(w.qp[0], wire.Endpoint{IP: pairIP[0], Port: 7}, at, ConnectParams{}, connected[i].finish); o != OutcomeSuccess {
			t.Fatal(o)
		}
		w.pass(time.Second, func() {})
		if n := len(w.l.queue); n != 1 {
			t.Errorf("%d requests in the queue", n)
		}
		if i == 0 {
			w.restart(Config{ResetKey: hostKey})
		}
	}
	ctr := w.eng[1].NewConnector()
	_ = w.l.GetRequest(ctr, got.finish)
	if o := ctr.Accept(w.qp[1], ConnectParams{}, accepted.finish); o != OutcomeSuccess {
		t.Fatal(o)
	}
	w.pass(time.Second, func() {})
	if connected[0].times != 0 || connected[1].times != 1 || connected[1].outcome != OutcomeSuccess {
		t.Errorf("%+v", connected)
	}
}

// rival asks side 1 for connections with the ND endpoints and the address of an open connection.
type rival struct {
	w               *world
	cookie          []byte // the cookie of the newest RETRY
	pings, rejected int
}

// newRival delivers only every third PING that demands a proof of life.
func newRival(w *world) *rival {
	r := &rival{w: w}
	w.sent = func(f flight) bool {
		switch {
		case f.data[1] != 0 || f.to != 0:
		case opcode(f.data) == wire.CtlRETRY:
			r.cookie = append([]byte(nil), f.data[wire.ControlOffset+wire.ControlHeaderLen:]...)
		case opcode(f.data) == wire.CtlREJ:
			r.rejected++
		case opcode(f.data) == wire.CtlPing:
			r.pings++
			return r.pings%lifetime.ProofPings == 0
		}
		return true
	}
	return r
}

// ask sends a REQ to one side with the address of the other, and with the newest cookie if cookie is true.
func (r *rival) ask(to int, id uint64, cookie bool) {
	src, dst := wire.Endpoint{IP: pairIP[0], Port: 7}, wire.Endpoint{IP: pairIP[1], Port: pairPort}
	if to == 0 {
		src, dst = dst, src
	}
	h := wire.Hello{
		ConnID: id, Nonce: 1, SrcPort: src.Port, DstPort: dst.Port, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: 1408, Window: 16,
	}
	if cookie {
		h.Cookie = r.cookie
	}
	r.w.lane[to].arrive(flight{
		to: to, from: wire.Endpoint{IP: src.IP, Port: wire.SourcePort(id)}, at: wire.Endpoint{IP: dst.IP, Port: wire.DefaultPort}, data: asking(src.IP, &h).bytes(),
	})
	r.w.pass(time.Millisecond, func() {})
}

// persist sends REQs with cookies for this many seconds, and checks the cost.
func (r *rival) persist(t *testing.T, seconds int) {
	t.Helper()
	for range seconds * 1000 / 2 {
		r.ask(1, 1, false) // for a cookie
		r.ask(1, 1, true)
	}
	r.checkCost(t, seconds)
	if r.rejected == 0 {
		t.Error("no REQ was refused")
	}
}

// checkCost checks how many PINGs the demands of this many seconds caused.
func (r *rival) checkCost(t *testing.T, seconds int) {
	t.Helper()
	s := r.w.eng[1].Stats()
	if most := uint64(seconds*lifetime.ProofPings*int(time.Second/lifetime.ProofTime) + 2*lifetime.ProofPings); s.ProofPings > most || s.ProofPings < 4 {
		t.Errorf("%d PINGs in %d s, want 4 to %d", s.ProofPings, seconds, most)
	}
}

// REQs for the ND endpoints of a live attempt do not end it. Forged ones get RETRY. Those with a cookie make the attempt prove
// itself, although all but one PING of each demand are lost. An attempt of our own side stays, whoever sends the REQ. CookiesSent,
// Refused and ProofPings count them.
func TestAttackContestedAttempt(t *testing.T) {
	for _, accepts := range []bool{false, true} {
		w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
		ctr := [2]*Connector{w.eng[0].NewConnector(), w.eng[1].NewConnector()}
		var got, connected, accepted, completed promise
		_ = w.l.GetRequest(ctr[1], got.finish)
		at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
		if o := ctr[0].connect(w.qp[0], wire.Endpoint{IP: pairIP[0], Port: 7}, at, ConnectParams{}, connected.finish); o != OutcomeSuccess {
			t.Fatal(o)
		}
		accept := func() {
			if o := ctr[1].Accept(w.qp[1], ConnectParams{}, accepted.finish); o != OutcomeSuccess {
				t.Fatal(o)
			}
			w.pass(10*time.Millisecond, func() {})
		}
		w.pass(10*time.Millisecond, func() {})
		r := newRival(w)
		for id := range uint64(100) {
			r.ask(1, id+1, false)
			r.ask(0, id+1, false)
		}
		if s := [2]Stats{w.eng[0].Stats(), w.eng[1].Stats()}; s[1].CookiesSent != 100 || s[0].Refused != 100 || s[1].ProofPings != 0 {
			t.Errorf("forged: %d cookies, %d refused, %d PINGs", s[1].CookiesSent, s[0].Refused, s[1].ProofPings)
		}
		if accepts {
			accept()
		}
		r.persist(t, 3)
		if !accepts {
			accept()
		}
		w.pass(time.Second, func() {})
		if o := ctr[0].CompleteConnect(completed.finish); o != OutcomeSuccess {
			t.Fatal(o)
		}
		w.pass(time.Second, func() {})
		if ctr[1].State() != CtrEstablished || ctr[0].State() != CtrEstablished {
			t.Errorf("accepted before: %v: %v and %v", accepts, ctr[0].State(), ctr[1].State())
		}
	}
}

// REQs for the ND endpoints of a live connection do not end it. REQs of the peer's own host have cookies: however many come, and
// although all but one PING of each demand are lost, the connection stays. Forged ones cannot have a cookie. The number of PINGs is
// bounded. Contested, ProofPings and CookiesSent count them.
func TestAttackContestedConnection(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
	w.listen()
	ctr, o, _ := w.fromPort(w.qp)
	if o != OutcomeSuccess {
		t.Fatal(o)
	}
	r := newRival(w)
	for id := range uint64(500) {
		r.ask(1, id+1, false)
	}
	if s := w.eng[1].Stats(); s.ProofPings != 0 || s.Contested != 0 || s.CookiesSent != 500 {
		t.Errorf("forged: %d PINGs, %d cookies", s.ProofPings, s.CookiesSent)
	}
	r.persist(t, 3)
	if ctr[0].State() != CtrEstablished || ctr[1].State() != CtrEstablished {
		t.Errorf("%v, %v", ctr[0].State(), ctr[1].State())
	}
}

// While a peer's process is stopped, another process with the same address cannot end the peer's connection or attempt: neither by
// REQs with cookies, nor by RSTs, whose token and number it would have to guess. Only PeerTimeout limits the peer's silence.
// Contested, ProofPings and Drops[rst_token] count the attempts.
func TestAttackStalledPeer(t *testing.T) {
	for name, established := range map[string]bool{"a connection": true, "an attempt": false} {
		w := newWorld(newLanes(), 64, Config{ResetKey: hostKey, Stalled: time.Minute})
		var connected, got, accepted promise
		ctr := [2]*Connector{w.eng[0].NewConnector(), w.eng[1].NewConnector()}
		if established {
			w.listen()
			ctr, _, _ = w.fromPort(w.qp)
		} else {
			_ = w.l.GetRequest(ctr[1], got.finish)
			at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
			if o := ctr[0].connect(w.qp[0], wire.Endpoint{IP: pairIP[0], Port: 7}, at, ConnectParams{}, connected.finish); o != OutcomeSuccess {
				t.Fatal(o)
			}
			w.pass(10*time.Millisecond, func() {})
		}
		c := ctr[1].conn
		r := newRival(w)
		sent, stalled := w.sent, true
		w.sent = func(f flight) bool { return sent(f) && !stalled }
		for range 3000 / 3 {
			r.ask(1, 1, false)
			r.ask(1, 1, true)
			m := wire.Reset{ConnID: c.identity.peerID, Number: c.identity.firstNumber - 1} // even if the attacker knows the id
			f := &forged{from: wire.Endpoint{IP: pairIP[0], Port: wire.SourcePort(1)}}
			f.control(wire.CtlRST, m.Append(nil))
			w.lane[1].arrive(flight{to: 1, from: f.from, at: wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}, data: f.bytes()})
			w.pass(time.Millisecond, func() {})
		}
		r.checkCost(t, 3)
		if d := w.eng[1].Stats().Drops[wire.DropRSTToken]; d != 1000 {
			t.Errorf("%s: %d RSTs were not believed", name, d)
		}
		stalled = false
		w.pass(time.Second, func() {})
		if !established && ctr[1].Accept(w.qp[1], ConnectParams{}, accepted.finish) == OutcomeSuccess {
			w.pass(time.Second, func() {})
			var completed promise
			_ = ctr[0].CompleteConnect(completed.finish)
			w.pass(time.Second, func() {})
		}
		if ctr[0].State() != CtrEstablished || ctr[1].State() != CtrEstablished {
			t.Errorf("%s whose peer was stopped for 3 s is %v and %v", name, ctr[0].State(), ctr[1].State())
		}
	}
}

// The reset token of a connection differs for every address and port, so a process that receives elsewhere cannot be asked for it.
func TestResetTokenIsOfItsAddress(t *testing.T) {
	r := guard.NewResetTokens(&hostKey)
	at := wire.Endpoint{IP: pairIP[0], Port: 1}
	other := guard.NewResetTokens(&[32]byte{9})
	again := guard.NewResetTokens(&hostKey)
	if r.Of(5, at) != again.Of(5, at) {
		t.Error("another process has another token")
	}
	for _, token := range [][wire.ResetTokenLen]byte{
		r.Of(6, at), r.Of(5, wire.Endpoint{IP: pairIP[1], Port: 1}), r.Of(5, wire.Endpoint{IP: pairIP[0], Port: 2}), other.Of(5, at),
	} {
		if token == r.Of(5, at) {
			t.Error("the token fits elsewhere")
		}
	}
}
