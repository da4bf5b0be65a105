package provider

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// UDP source ports belong to paths, not to connections (PROTOCOL §6.1).

// rewriting replaces the source port of every packet of a side by the result of change.
func (w *world) rewriting(side int, change func(f *flight) uint16) {
	carry := w.lane[side].carry
	w.lane[side].carry = func(f flight) {
		f.from.Port = change(&f)
		carry(f)
	}
}

// write posts a WRITE of n bytes on side 0 and reports whether it succeeded within the time.
func (w *world) write(t *testing.T, n uint32, within time.Duration) bool {
	t.Helper()
	from, to := fuzzRegions()[0], fuzzRegions()[1]
	if _, o := (&listed{SGL: []SGE{{Addr: from.Base(), Len: n, Token: from.Token()}}, Request: Request{Kind: KindWrite, Length: n, Addr: to.Base(), Token: to.Token()}}).post(w.qp[0]); o != OutcomeSuccess {
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

// A translator on the path changes a connection's source ports, and changes them again later. The connection works from the first
// packet on, and a change loses no packet.
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
		if s := w.eng[side].Stats(); s.PathsChanged != 1 || s.Drops[wire.DropPath] != 0 || s.Timeouts != 0 || s.PortsChanged != 0 {
			t.Errorf("side %d: %d paths changed, %d dropped, %d time-outs, %d own ports", side, s.PathsChanged, s.Drops[wire.DropPath], s.Timeouts, s.PortsChanged)
		}
	}
}

// A sender that knows the connection id, but neither the port nor the packet number, gets nothing executed. It causes one CHALLENGE
// in a round trip and no answer to its port, and the connection works on. Challenges and Drops[path] count it.
func TestAttackUnprovenPorts(t *testing.T) {
	p := newPair(t, 1408).connect()
	rng := rand.New(rand.NewPCG(20, 20))
	rx, port, own := p.conn(1).expects(), p.conn(1).identity.remote.Port, p.conn(1).identity.local.Port
	p.link[0].mangle = func([]byte) bool { return false } // all packets of side 1 are lost, so that no CHALLENGE is answered
	const tries = 500                                     // half a second, because an idle connection has no challenge state
	began := p.now
	for range tries {
		f := p.forge(1)
		f.from.Port = uint16(49152 + rng.IntN(16384))
		if f.from.Port == port {
			f.from.Port ^= 1
		}
		off := portReach + rng.Uint32N(1<<32-2*portReach+1)
		f.fields.Number = space.Expand(uint32(f.fields.Number)+off, f.fields.Number+1)
		p.inject(1, f)
		p.now = p.now.Add(time.Millisecond)
		p.eng[1].Run(p.now)
	}
	for n := range uint64(tries) { // guesses the nonce
		f := p.forge(1)
		f.control(wire.CtlResponse, []byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, 0})
		f.from.Port = port ^ 2
		f.fields.Number += portReach
		p.inject(1, f)
		p.eng[1].Run(p.now)
	}
	s := p.eng[1].Stats()
	gap := p.conn(1).rtt.Smoothed
	if gap == 0 {
		gap = recovery.InitialRTO
	}
	if most := uint64(p.now.Sub(began)/max(gap, time.Millisecond)) + 2; s.Challenges == 0 || s.Challenges > most {
		t.Errorf("%d challenges, want at most %d", s.Challenges, most)
	}
	if s.Drops[wire.DropPath] != 2*tries || s.PathsChanged != 0 || p.conn(1).expects() != rx || p.conn(1).identity.remote.Port != port {
		t.Errorf("%d dropped, %d paths", s.Drops[wire.DropPath], s.PathsChanged)
	}
	if s.PortsChanged == 0 || s.PortsChanged > 8 || p.conn(1).identity.local.Port == own {
		t.Errorf("our own port changed %d times within half a second of silence", s.PortsChanged)
	}
	p.link[0].mangle = nil
	p.post(0, p.write(0, 0, 3000))
	p.pass(2 * time.Second)
	p.outcomes(0, OutcomeSuccess)
}

// A packet from an unknown port is used if its number is near the largest number received, and otherwise dropped (PROTOCOL §6.1).
func TestNumbersFromUnprovenPorts(t *testing.T) {
	const reach = portReach
	for _, c := range []struct {
		off int64
		use bool
	}{{0, true}, {1, true}, {reach - 1, true}, {1 - reach, true}, {reach, false}, {-reach, false}, {1 << 31, false}, {1 << 20, false}, {-1 << 20, false}} {
		p := newPair(t, 1408).connect()
		f := p.forge(1)
		f.from.Port ^= 1
		f.fields.Number += uint64(c.off)
		next := p.conn(1).traffic.received.spaces[0].next
		p.inject(1, f)
		p.eng[1].Run(p.now)
		if used := p.conn(1).traffic.received.spaces[0].next != next; used != c.use {
			t.Errorf("%d from the largest number: used is %v", c.off, used)
		}
		if s := p.eng[1].Stats(); s.Challenges != 1 || (s.Drops[wire.DropPath] == 0) != c.use {
			t.Errorf("%d from the largest number: %d challenges, %d dropped", c.off, s.Challenges, s.Drops[wire.DropPath])
		}
	}
}

// A peer that changes its port with every packet is served. It causes one CHALLENGE in a round trip.
func TestAttackPortOfEveryPacket(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	if _, ok := w.connect(w.qp); !ok {
		t.Fatal("no connection")
	}
	next := uint16(50000)
	w.rewriting(0, func(*flight) uint16 { next++; return next })
	before := w.eng[1].Stats()
	for range 10 {
		if !w.write(t, 30000, 100*time.Millisecond) {
			t.Fatal("a WRITE does not succeed")
		}
	}
	s := w.eng[1].Stats()
	roundTrip := w.qp[1].conn.rtt.Smoothed
	if s.Challenges == 0 || s.Challenges > uint64(time.Second/roundTrip)+1 || s.PacketsOut-before.PacketsOut > 2*(s.PacketsIn-before.PacketsIn)+10 {
		t.Errorf("%d challenges, %d packets for %d", s.Challenges, s.PacketsOut-before.PacketsOut, s.PacketsIn-before.PacketsIn)
	}
	if s.PathsChanged == 0 || s.PathsChanged > s.Challenges || s.PortsChanged != 0 {
		t.Errorf("%d ports proven by %d challenges, %d of our own changed", s.PathsChanged, s.Challenges, s.PortsChanged)
	}
}

// deadPorts loses the packets that the sides send from their present ports, like a failed path that the hash of these ports
// selects.
func (w *world) deadPorts(sides ...int) {
	dead := map[uint16]bool{}
	for _, side := range sides {
		dead[w.qp[side].conn.identity.local.Port] = true
	}
	w.sent = func(f flight) bool { return !dead[f.from.Port] }
}

// If a connection's path fails in one or both directions, the connection continues from other source ports. The change takes two
// time-outs if the path of the requests failed, and one more if the path of the acknowledgements failed (PROTOCOL §6.1).
func TestDeadPathIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		dead     []int
		timeouts uint64
	}{
		"there": {[]int{0}, 2}, "back": {[]int{1}, 3}, "both": {[]int{0, 1}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(newLanes(), 64, Config{})
			if _, ok := w.connect(w.qp); !ok {
				t.Fatal("no connection")
			}
			for range recovery.SettledAfter { // so that the time-out is computed from round trips
				if !w.write(t, 30, 100*time.Millisecond) {
					t.Fatal("no WRITE")
				}
			}
			w.qp[1].conn.rtt = w.qp[0].conn.rtt // this side sent no data to measure with
			w.deadPorts(c.dead...)
			if !w.write(t, 30, 100*time.Millisecond) {
				t.Fatal("the connection does not go on")
			}
			s := [2]Stats{w.eng[0].Stats(), w.eng[1].Stats()}
			if s[0].Timeouts != c.timeouts {
				t.Errorf("it took %d time-outs, want %d", s[0].Timeouts, c.timeouts)
			}
			for side := range 2 {
				// If the path back fails, both sides change their ports, because the sender cannot know which path failed.
				if n := s[side].PortsChanged; n > 1 || n == 0 && slices.Contains(c.dead, side) {
					t.Errorf("side %d changed its port %d times", side, n)
				}
				if s[side].Lost != 0 || s[side].Drops[wire.DropPath] != 0 {
					t.Errorf("side %d: %d lost, %d dropped", side, s[side].Lost, s[side].Drops[wire.DropPath])
				}
			}
			w.write(t, 30, time.Second)
			if s := w.eng[1].Stats(); s.PathsChanged == 0 {
				t.Error("the new port was not proven")
			}
		})
	}
}

// PINGs detect the failed path of an idle connection. The second one leaves from another port (PROTOCOL §6.1, §9.5).
func TestDeadPathOfAnIdleConnection(t *testing.T) {
	for name, dead := range map[string][]int{"there": {0}, "back": {1}, "both": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(newLanes(), 64, Config{})
			if _, ok := w.connect(w.qp); !ok {
				t.Fatal("no connection")
			}
			w.deadPorts(dead...)
			w.pass(time.Minute, func() {})
			for side := range 2 {
				if s := w.eng[side].Stats(); s.Lost != 0 || s.PortsChanged > 2 {
					t.Errorf("side %d: %d lost, %d ports", side, s.Lost, s.PortsChanged)
				}
			}
			if !w.write(t, 30, 100*time.Millisecond) {
				t.Error("the connection does not go on")
			}
		})
	}
}

// A handshake continues from other ports, whichever of its messages were lost on a failed path.
func TestDeadPathOfAHandshake(t *testing.T) {
	for _, op := range []wire.Opcode{wire.CtlREQ, wire.CtlPEND, wire.CtlREP, wire.CtlREPACK, wire.CtlRTU} {
		t.Run(op.String(), func(t *testing.T) {
			w := newWorld(newLanes(), 64, Config{})
			dead := map[uint16]bool{}
			w.sent = func(f flight) bool {
				if h, _ := wire.ParseBaseHeader(f.data); len(dead) == 0 && h.Control() {
					at, _ := wire.ContentOffset(f.data)
					if msg, d := wire.ParseControl(f.data, at, len(f.data)); d == wire.DropNone && msg.Opcode == op {
						dead[f.from.Port] = true
					}
				}
				return !dead[f.from.Port]
			}
			w.listen()
			ctr, qp := w.slowConnect(t)
			if ctr[0].State() != CtrEstablished || ctr[1].State() != CtrEstablished || len(dead) == 0 {
				t.Fatalf("%v and %v", ctr[0].State(), ctr[1].State())
			}
			w.qp = qp
			if !w.write(t, 30, 5*time.Second) {
				t.Error("no WRITE")
			}
			if w.eng[0].Stats().PortsChanged+w.eng[1].Stats().PortsChanged == 0 {
				t.Error("no port changed")
			}
		})
	}
}

// slowConnect connects the two queue pairs, with a second for each step.
func (w *world) slowConnect(t *testing.T) (ctr [2]*Connector, qp [2]*QP) {
	t.Helper()
	var got, connected, accepted, completed promise
	ctr = [2]*Connector{w.eng[0].NewConnector(), w.eng[1].NewConnector()}
	params := ConnectParams{Inbound: 4, Outbound: 4}
	if o := w.l.GetRequest(ctr[1], got.finish); o != OutcomeSuccess {
		t.Fatal(o)
	}
	at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
	if o := ctr[0].connect(w.qp[0], wire.Endpoint{IP: pairIP[0]}, at, params, connected.finish); o != OutcomeSuccess {
		t.Fatal(o)
	}
	w.pass(time.Second, func() {})
	if o := ctr[1].Accept(w.qp[1], params, accepted.finish); o != OutcomeSuccess {
		t.Fatal(o)
	}
	w.pass(time.Second, func() {})
	if o := ctr[0].CompleteConnect(completed.finish); o != OutcomeSuccess {
		t.Fatal(o)
	}
	w.pass(time.Second, func() {})
	return ctr, w.qp
}

// If a packet is delayed while its sender changes its port, it arrives with the old port. The peer then answers the CHALLENGE from
// the known port, and that answers the CHALLENGE as well. Otherwise a later change of the peer's port would make this side leave a
// working path (PROTOCOL §6.1).
func TestChallengeAnsweredFromTheKnownPort(t *testing.T) {
	p := newPair(t, 1408).connect()
	late, port := p.forge(1), p.conn(1).identity.remote.Port
	late.control(wire.CtlPing, make([]byte, wire.PingLen))
	for i := range uint16(3) {
		late.from.Port = port ^ (1 + i)
		p.inject(1, late)
		p.pass(2 * time.Second)
		if s := p.eng[1].Stats(); s.Challenges != uint64(i)+1 || s.PathsChanged != 0 || s.PortsChanged != 0 {
			t.Errorf("after %d late packets: %d challenges, %d paths and %d own ports changed", i+1, s.Challenges, s.PathsChanged, s.PortsChanged)
		}
	}
}
