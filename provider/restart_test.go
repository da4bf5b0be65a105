package provider

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// Peers that lost their state are noticed at once, and those who did not lose it stay (PROTOCOL §7.3, §7.4).

var hostKey = [32]byte{1, 2, 3}

// restart puts an engine that knows nothing into the place of side i, as a process that was killed and started again.
func (w *world) restart(i int, cfg Config) {
	carry := w.lane[i].carry
	w.lane[i].reset(carry)
	w.eng[i] = New(cfg, w.lane[i], w.mem[i], rand.New(rand.NewPCG(uint64(w.now), 8)))
	w.qp[i] = w.eng[i].NewQP(QPConfig{
		ReceiveCQ: w.cq[i], InitiatorCQ: w.cq[i], ReceiveDepth: 16, InitiatorDepth: 16, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	w.eng[i].Run(w.now)
}

// fromPort connects side 0 from ND port 7 with a new queue pair of side 1, and returns the connectors and how long Connect took.
func (w *world) fromPort(qp [2]*QP) (ctr [2]*Connector, o Outcome, took time.Duration) {
	ctr = [2]*Connector{w.eng[0].NewConnector(), w.eng[1].NewConnector()}
	var got, connected, accepted, completed promise
	_ = w.l.GetRequest(ctr[1], got.finish)
	began := w.now
	if o := ctr[0].Connect(qp[0], wire.Endpoint{IP: pairIP[0], Port: 7}, wire.Endpoint{IP: pairIP[1], Port: pairPort}, ConnectParams{}, connected.finish); o != OutcomeSuccess {
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

// The process behind a connection restarts while data are under way: with the key of the host it answers for the one before it, and what was
// posted ends at once. With a key of its own it cannot, and the silence of the connection's peer has to last.
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
		w.restart(0, Config{ResetKey: c.key})
		region := fuzzRegions()[1]
		from := w.now
		rtt := &w.qp[1].conn.rtt
		limit := time.Millisecond // the answer to the packet itself
		if c.n < 30 {             // too short to be answered: that to the PING which goes with the first time-out, after a probe
			limit += rtt.Probe() + rtt.Timeout(0)
		}
		if _, err := w.qp[1].Post(&Request{
			Kind: KindWrite, SGL: []SGE{{Addr: region.Base(), Len: c.n, Token: region.Token()}}, Length: c.n, Addr: 1, Token: 1,
		}); err != OutcomeSuccess {
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

// A client that was killed comes back from its ND port and is accepted within a second, whether its host answers for the old connection or
// nobody does.
func TestClientReturnsFromItsPort(t *testing.T) {
	for name, key := range map[string][32]byte{"the host's key": hostKey, "a key of its own": {9}} {
		w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
		old, o, _ := w.fromPort(w.qp)
		if o != OutcomeSuccess || old[1].State() != CtrEstablished {
			t.Fatal(o, old[1].State())
		}
		w.pass(3*time.Second, func() {})
		w.restart(0, Config{ResetKey: key})
		ctr, o, took := w.fromPort([2]*QP{w.qp[0], w.newQP(1)})
		if o != OutcomeSuccess || took > time.Second || ctr[1].State() != CtrEstablished {
			t.Errorf("%s: %v after %v, %v", name, o, took, ctr[1].State())
		}
		if old[1].State() != CtrLost || w.eng[1].Stats().Contested != 1 {
			t.Errorf("%s: the old connection is %v, contested %d times", name, old[1].State(), w.eng[1].Stats().Contested)
		}
	}
}

// REQs for the ND endpoints of a connection that lives do not end it: not those of its own host, which have cookies, however many come and
// though all but one PING of each demand are lost, and not forged ones, which cannot have one. They cost a bounded number of PINGs. Seen by
// Contested, ProofPings and CookiesSent.
func TestAttackContestedConnection(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
	w.listen()
	ctr, o, _ := w.fromPort(w.qp)
	if o != OutcomeSuccess {
		t.Fatal(o)
	}
	var cookie []byte
	pings, rejected := 0, 0
	w.sent = func(f flight) bool {
		switch {
		case f.data[1] != 0 || f.to != 0:
		case opcode(f.data) == wire.CtlRETRY:
			cookie = append([]byte(nil), f.data[wire.ControlOffset+wire.ControlHeaderLen:]...)
		case opcode(f.data) == wire.CtlREJ:
			rejected++
		case opcode(f.data) == wire.CtlPing:
			pings++
			return pings%lifetime.ProofPings == 0
		}
		return true
	}
	request := func(n int, cookies bool) {
		w.lane[1].arrive(flight{to: 1, from: wire.Endpoint{IP: pairIP[0], Port: wire.SourcePort(uint64(n))}, at: wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}, data: func() []byte {
			h := wire.Hello{
				ConnID: uint64(n), Nonce: 1, SrcPort: 7, DstPort: pairPort, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: 1408, Window: 16,
			}
			if cookies {
				h.Cookie = cookie
			}
			return asking(pairIP[0], &h).bytes()
		}()})
		w.pass(time.Millisecond, func() {})
	}
	for i := range 500 {
		request(1+i, false)
	}
	if s := w.eng[1].Stats(); s.ProofPings != 0 || s.Contested != 0 || s.CookiesSent != 500 {
		t.Errorf("forged: %d PINGs, %d cookies", s.ProofPings, s.CookiesSent)
	}
	const seconds = 3
	for range seconds * 1000 / 2 {
		request(1, false) // for a cookie
		request(1, true)
	}
	s := w.eng[1].Stats()
	if most := uint64(seconds*lifetime.ProofPings*int(time.Second/lifetime.ProofTime) + 2*lifetime.ProofPings); s.ProofPings == 0 || s.ProofPings > most || s.ProofPings < 4 {
		t.Errorf("%d PINGs in %d s, want at most %d", s.ProofPings, seconds, most)
	}
	if ctr[0].State() != CtrEstablished || ctr[1].State() != CtrEstablished || rejected == 0 {
		t.Errorf("%v, %v, %d rejected", ctr[0].State(), ctr[1].State(), rejected)
	}
}

// The token of a connection is another one at any other address or port: who receives elsewhere cannot be asked for it.
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
