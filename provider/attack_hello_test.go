package provider

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/shake"
	"github.com/ndxdp/ndxdp/wire"
)

// Attacks by strangers on listeners that encrypt.

// secureREQ is a REQ with a part of a ClientHello that any host could send.
func secureREQ(from [16]byte, id uint64, nd uint16, cookie []byte, part wire.HelloFragment) *forged {
	return asking(from, &wire.Hello{
		ConnID: id, Nonce: id, SrcPort: nd, DstPort: pairPort, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version,
		MaxPacket: 1408, Window: 16, Cookie: cookie, Features: wire.FeatureSecure, Fragment: part,
	})
}

// secureWorld is a world whose listener encrypts.
func secureWorld(server shakertest.Plan) (*world, *shakertest.Side) {
	w := newWorld(newLanes(), 64, Config{ResetKey: hostKey})
	w.listen()
	side := shakertest.Fixed(false, server)
	w.l.shaker = side
	return w, side
}

// Attack 16. A flood of ClientHellos from spoofed addresses begins few handshakes, leaves no memory, and gets a RETRY for the rest. A source
// with cookies begins a bounded number.
func TestAttackFloodOfHandshakes(t *testing.T) {
	w, side := secureWorld(usual)
	w.sent = func(f flight) bool { return f.at.IP == pairIP[0] || f.at.IP == pairIP[1] }
	rng := rand.New(rand.NewPCG(8, 8))
	whole := wire.HelloFragment{Total: 1000, Bytes: make([]byte, 1000)}
	binary.BigEndian.PutUint32(whole.Bytes, 1000)
	for range 20000 {
		w.inject(secureREQ(address(rng.Uint32()), rng.Uint64()|1, 5, nil, whole))
		w.now += 50_000 // 20,000 a second
	}
	s := w.eng[1].Stats()
	if begun, _ := side.Counts(); begun != guard.UnprovenShakes || s.CookiesSent < 19000 {
		t.Errorf("%d handshakes were begun, %d cookies sent", begun, s.CookiesSent)
	}
	w.pass(12*time.Second, func() {})
	begun, closed := side.Counts()
	if begun != closed || w.eng[1].Stats().HandshakesFailed != uint64(begun) {
		t.Errorf("%d of %d handshakes were closed, %d failed", closed, begun, w.eng[1].Stats().HandshakesFailed)
	}
	greedy := address(1)
	for i := range uint64(guard.MaxSourceShakes + 1000) {
		answers := w.inject(secureREQ(greedy, 1+i*997, uint16(i), nil, whole))
		if len(answers) == 1 && opcode(answers[0]) == wire.CtlRETRY {
			w.inject(secureREQ(greedy, 1+i*997, uint16(i), contents(answers[0])[wire.ControlHeaderLen:], whole))
		}
		w.breakShakes()
		w.now += 1000
	}
	again, _ := side.Counts()
	dropped := int(w.eng[1].Stats().Drops[wire.DropRate] - s.Drops[wire.DropRate])
	if n := again - begun; n < guard.MaxSourceShakes || n > guard.MaxSourceShakes*101/100 || n+dropped != guard.MaxSourceShakes+1000 {
		t.Errorf("one source began %d handshakes at once, and %d were dropped; want %d and the rest", n, dropped, guard.MaxSourceShakes)
	}
}

// breakShakes makes the handshakes of side 1 fail.
func (w *world) breakShakes() {
	for c := range w.eng[1].group.conns.all {
		if sh := c.end.shaking; sh != nil {
			sh.fail(c, errors.New("the ClientHello is broken"), 50)
		}
	}
	w.eng[1].Run(w.now)
}

// Attack 16. Parts of ClientHellos that overlap, contradict each other, leave gaps, are tiny, or are never completed: bounded memory, a
// counted reason, and no handshake without an end.
func TestAttackPartsOfClientHellos(t *testing.T) {
	w, side := secureWorld(usual)
	b := make([]byte, 1024)
	for i, c := range []struct {
		parts []wire.HelloFragment
		drops int
	}{
		{[]wire.HelloFragment{{Total: 5000, Bytes: b}}, 1},
		{[]wire.HelloFragment{{Total: 4096, Bytes: b}, {Total: 4095, Offset: 1024, Bytes: b}}, 1},
		{[]wire.HelloFragment{{Total: 4096, Bytes: b}, {Total: 4096, Offset: 512, Bytes: append(make([]byte, 511), 1)}}, 1},
		{[]wire.HelloFragment{{Total: 4096, Bytes: b}, {Total: 4096, Bytes: b}, {Total: 4096, Offset: 512, Bytes: b}}, 0},
	} {
		before := w.eng[1].Stats().Drops[wire.DropShake]
		for _, part := range c.parts {
			w.inject(secureREQ(address(uint32(i+1)), uint64(i+1), 5, nil, part))
		}
		if got := w.eng[1].Stats().Drops[wire.DropShake] - before; got != uint64(c.drops) {
			t.Errorf("case %d: %d packets were dropped, want %d", i, got, c.drops)
		}
	}
	for at := uint16(0); at < 200; at += 2 {
		w.inject(secureREQ(address(99), 99, 5, nil, wire.HelloFragment{Offset: at, Total: 4096, Bytes: b[:1]}))
	}
	if got := w.eng[1].Stats().Drops[wire.DropShake]; got < 80 {
		t.Errorf("%d tiny parts were dropped", got)
	}
	changed := secureREQ(address(4), 4, 5, nil, wire.HelloFragment{Offset: 1024, Total: 4096, Bytes: b})
	bodyOf(append(make([]byte, wire.BaseHeaderLen), changed.body...))[33] ^= 1
	w.inject(changed)
	w.pass(12*time.Second, func() {})
	if begun, closed := side.Counts(); begun != closed || w.eng[1].Stats().HandshakesFailed != uint64(begun) {
		t.Errorf("%d of %d handshakes were closed", closed, begun)
	}
}

// Attack 17. An address that is not proven gets at most three times the bytes that came from it, however long the certificates are and
// however long the handshake waits.
func TestAttackAmplificationByHandshake(t *testing.T) {
	for _, size := range []int{100, 3000, shake.MaxLevel} {
		w, _ := secureWorld(shakertest.Plan{Hello: 1200, Rest: size})
		victim, got, came := address(7), 0, 0
		w.sent = func(f flight) bool {
			if f.at.IP == victim {
				got += len(f.data)
			}
			return f.at.IP == pairIP[0] || f.at.IP == pairIP[1]
		}
		hello := make([]byte, 1500)
		binary.BigEndian.PutUint32(hello, 1500)
		for range 3 {
			for _, part := range []wire.HelloFragment{{Total: 1500, Bytes: hello[:1000]}, {Offset: 1000, Total: 1500, Bytes: hello[1000:]}} {
				w.inject(secureREQ(victim, 7, 5, nil, part))
				came += wire.MinPacket
				w.pass(50*time.Millisecond, func() {})
				if got > 3*came {
					t.Fatalf("certificates of %d bytes: %d bytes came, and %d left", size, came, got)
				}
			}
		}
		w.pass(12*time.Second, func() {})
		if got > 3*came || got == 0 {
			t.Errorf("certificates of %d bytes: %d bytes came, and %d left", size, came, got)
		}
	}
}

// fromPort7 connects side 0 from ND port 7 with TLS, as fromPort does without.
func (w *world) fromPort7(client *shakertest.Side) (ctr [2]*Connector, o Outcome, took time.Duration) {
	w.tls = client
	defer func() { w.tls = nil }()
	return w.fromPort([2]*QP{w.qp[0], w.newQP(1)})
}

// Attack 14. An encrypted connection need not prove that it is alive to a REQ in plain, nor to one with a ClientHello, whoever sends it. A peer
// that lost its state connects again within a second, because it completes a handshake.
func TestAttackContestWithoutHandshake(t *testing.T) {
	w, side := secureWorld(usual)
	w.l.allowPlain = true
	old, o, _ := w.fromPort7(shakertest.Fixed(true, usual))
	if o != OutcomeSuccess || old[1].State() != CtrEstablished {
		t.Fatal(o, old[1].State())
	}
	r := newRival(w)
	for range 50 {
		r.ask(1, 1, false)
		r.ask(1, 1, true)
	}
	for id := range uint64(20) {
		w.inject(secureREQ(pairIP[0], 100+id, 7, nil, wire.HelloFragment{Total: 1000, Bytes: make([]byte, 1000)}))
		w.pass(10*time.Millisecond, func() {})
	}
	if s := w.eng[1].Stats(); s.Contested != 0 || s.ProofPings != 0 || old[1].State() != CtrEstablished || r.rejected == 0 {
		t.Errorf("contested %d times, %d PINGs, %d rejections, the connection is %v", s.Contested, s.ProofPings, r.rejected, old[1].State())
	}
	w.sent = func(flight) bool { return true }
	w.pass(12*time.Second, func() {}) // the attacker's handshakes end
	w.restart(Config{ResetKey: hostKey})
	ctr, o, took := w.fromPort7(shakertest.Fixed(true, usual))
	if o != OutcomeSuccess || took > time.Second || ctr[1].State() != CtrEstablished {
		t.Errorf("the restarted peer: %v after %v, %v", o, took, ctr[1].State())
	}
	if w.eng[1].Stats().Contested != 1 || old[1].State() != CtrLost {
		t.Errorf("contested %d times, the old connection is %v", w.eng[1].Stats().Contested, old[1].State())
	}
	if begun, closed := side.Counts(); closed != begun {
		t.Errorf("%d of %d handshakes were closed", closed, begun)
	}
}

// Attack 25. REQs that another process of the machine hands over make a handshake as REQs from the network do. If the process may not be
// trusted, they need a cookie.
func TestAttackHandedOverClientHello(t *testing.T) {
	for _, unproven := range []bool{false, true} {
		m := newShakeMeeting(t, usual, usual)
		m.link[1].router = func(tx *TxPacket) (ce, ok bool) {
			b := bytes.Clone(tx.Frags[0].Data)
			if h, _ := wire.ParseBaseHeader(b); h.ConnID() != 0 {
				return false, true
			}
			c := m.onlyConn(0)
			p := &RxPacket{From: c.identity.local, To: wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}, N: 1, Len: len(b), Handed: true, Unproven: unproven}
			p.Frags[0].Data = b
			Inject(m.eng[1], p)
			return false, false
		}
		m.get().connect().pass(time.Second)
		m.got.must(t, OutcomeSuccess)
		if s := m.eng[1].Stats(); (s.CookiesSent > 0) != unproven {
			t.Errorf("unproven %v: %d cookies were sent", unproven, s.CookiesSent)
		}
	}
}

// Forged ClientHellos that fail at once begin as few handshakes as ClientHellos that wait for an answer.
func TestAttackFloodOfBrokenHandshakes(t *testing.T) {
	w, side := secureWorld(usual)
	w.sent = func(f flight) bool { return f.at.IP == pairIP[0] || f.at.IP == pairIP[1] }
	part := wire.HelloFragment{Total: 1000, Bytes: make([]byte, 1000)}
	for i := range uint64(4 * guard.UnprovenShakes) {
		w.inject(secureREQ(address(uint32(i)), 1+i*997, 5, nil, part))
		w.breakShakes()
		w.now += 1000
	}
	if begun, _ := side.Counts(); begun != guard.UnprovenShakes {
		t.Errorf("%d handshakes were begun, want %d", begun, guard.UnprovenShakes)
	}
}
