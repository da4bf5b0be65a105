package provider

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// UDP source ports belong to paths and not to connections (PROTOCOL §6.1).

// rewriting has every packet of a side appear to come from the port that change makes of its own.
func (w *world) rewriting(side int, change func(f *flight) uint16) {
	carry := w.lane[side].carry
	w.lane[side].carry = func(f flight) {
		f.from.Port = change(&f)
		carry(f)
	}
}

// write posts a WRITE of n bytes on side 0 and returns whether it succeeded within the time.
func (w *world) write(t *testing.T, n uint32, within time.Duration) bool {
	t.Helper()
	from, to := fuzzRegions()[0], fuzzRegions()[1]
	if _, o := w.qp[0].Post(&Request{
		Kind: KindWrite, SGL: []SGE{{Addr: from.Base(), Len: n, Token: from.Token()}}, Length: n, Addr: to.Base(), Token: to.Token(),
	}); o != OutcomeSuccess {
		t.Fatal(o)
	}
	var rs [4]Result
	done := 0
	w.pass(within, func() {
		if k := w.cq[0].Fetch(rs[:]); k > 0 && done == 0 {
			done = k
		}
	})
	return done == 1 && rs[0].Outcome == OutcomeSuccess
}

// A translator in between gives a connection other source ports, and later others again: it works from the first packet on, and goes on after a
// CHALLENGE.
func TestTranslatedSourcePorts(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	shift := uint16(1000)
	for side := range 2 {
		w.rewriting(side, func(f *flight) uint16 { return f.from.Port - shift })
	}
	if _, ok := w.connect(w.qp); !ok {
		t.Fatal("no connection")
	}
	if !w.write(t, 30000, time.Second) {
		t.Fatal("nothing goes through")
	}
	if s := w.eng[1].Stats(); s.Challenges+s.PathsChanged+s.Drops[wire.DropPath] != 0 {
		t.Errorf("the ports of the handshake were challenged: %+v", s)
	}
	shift = 2000
	if !w.write(t, 30000, 5*time.Second) {
		t.Fatal("nothing goes through after the change")
	}
	for side := range 2 {
		if s := w.eng[side].Stats(); s.PathsChanged != 1 || s.Drops[wire.DropPath] == 0 || s.Lost != 0 {
			t.Errorf("side %d: %d paths changed, %d dropped", side, s.PathsChanged, s.Drops[wire.DropPath])
		}
	}
}

// Who knows the id and writes from another port gets nothing executed, and costs a CHALLENGE in a round trip; nothing is answered to that port, and
// the connection goes on meanwhile. So does one whose CHALLENGEs never come back. Seen by Challenges and Drops[path].
func TestAttackUnprovenPorts(t *testing.T) {
	p := newPair(t, 1408).connect()
	rng := rand.New(rand.NewPCG(20, 20))
	rx, port := p.conn(1).rx, p.conn(1).remote.Port
	p.link[0].mangle = func([]byte) bool { return false } // nothing that side 0 says comes back
	const tries = 500                                     // half a second: an idle connection has no such state
	began := p.now
	for range tries {
		f := p.forge(1)
		f.from.Port = uint16(49152 + rng.IntN(16384))
		if f.from.Port == port {
			f.from.Port ^= 1
		}
		p.inject(1, f)
		p.now = p.now.Add(time.Millisecond)
		p.eng[1].Run(p.now)
	}
	for n := range uint64(tries) { // answers by guess
		f := p.forge(1)
		f.control(wire.CtlResponse, []byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, 0})
		f.from.Port = port ^ 2
		p.inject(1, f)
		p.eng[1].Run(p.now)
	}
	s := p.eng[1].Stats()
	gap := p.conn(1).rtt.smoothed
	if gap == 0 {
		gap = minChallengeGap
	}
	if most := uint64(p.now.Sub(began)/max(gap, time.Millisecond)) + 2; s.Challenges == 0 || s.Challenges > most {
		t.Errorf("%d challenges, want at most %d", s.Challenges, most)
	}
	if s.Drops[wire.DropPath] != 2*tries || s.PathsChanged != 0 || p.conn(1).rx != rx || p.conn(1).remote.Port != port {
		t.Errorf("%d dropped, %d paths", s.Drops[wire.DropPath], s.PathsChanged)
	}
	p.link[0].mangle = nil
	p.post(0, p.write(0, 0, 3000))
	p.pass(2 * time.Second)
	p.outcomes(0, OutcomeSuccess)
}

// A peer that moves its port with every packet keeps its connection busy with nothing but a CHALLENGE in a round trip.
func TestAttackPortOfEveryPacket(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	if _, ok := w.connect(w.qp); !ok {
		t.Fatal("no connection")
	}
	next, move := uint16(50000), true
	w.rewriting(0, func(f *flight) uint16 {
		if !move {
			return f.from.Port
		}
		next++
		return next
	})
	before := w.eng[1].Stats()
	w.write(t, 3000, 2*time.Second)
	s := w.eng[1].Stats()
	roundTrip := w.qp[1].conn.rtt.smoothed
	if s.Challenges > uint64(2*time.Second/roundTrip)+1 || s.PacketsOut-before.PacketsOut > 2*(s.PacketsIn-before.PacketsIn)+10 {
		t.Errorf("%d challenges, %d packets for %d", s.Challenges, s.PacketsOut-before.PacketsOut, s.PacketsIn-before.PacketsIn)
	}
	move = false
	if !w.write(t, 3000, 5*time.Second) && w.qp[0].conn != nil {
		t.Error("the connection does not recover when its port stays")
	}
}

// One CHALLENGE at a time, one in a round trip, and each is answered once.
func TestChallenge(t *testing.T) {
	var ch challenge
	now := clock.Time(time.Second)
	if !ch.due(now, 0) || ch.answered(0) {
		t.Error("a new one")
	}
	ch.send(now, 7)
	if ch.due(now.Add(time.Millisecond-1), time.Millisecond) || !ch.due(now.Add(time.Millisecond), time.Millisecond) || ch.due(now.Add(time.Millisecond), 0) {
		t.Error("not one in a round trip")
	}
	if ch.answered(8) || !ch.answered(7) || ch.answered(7) {
		t.Error("answered by another nonce, or twice")
	}
	if ch.send(now, 9) != 9 || ch.send(now, 10) != 9 {
		t.Error("a repetition has another nonce, or a new one the old")
	}
	if ch.answered(7) || ch.answered(10) || !ch.answered(9) {
		t.Error("one that was never sent counts, or one that was answered")
	}
}
