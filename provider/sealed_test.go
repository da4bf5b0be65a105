package provider

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

// testSuite is AES-128-GCM.
const testSuite secure.Suite = 0x1301

// sealedPair is a pair whose connections are encrypted.
func sealedPair(tb testing.TB, maxPacket int, limits KeyLimits) *pair {
	return newSealedPair(tb, maxPacket, testSuite, Config{KeyLimits: limits})
}

func newSealedPair(tb testing.TB, maxPacket int, suite secure.Suite, cfg Config) *pair {
	p := newTunedPair(tb, maxPacket, 1, cfg)
	plan := shakertest.Plan{Suite: uint16(suite), Hello: 1500, Rest: 1700}
	p.tls[0], p.tls[1] = shakertest.Fixed(true, plan), shakertest.Fixed(false, plan)
	return p
}

// useTLS makes the connection to a listener encrypted, if the pair has handshakes.
func (p *pair) useTLS(l *Listener) {
	if p.tls[0] != nil {
		p.must(l.UseTLS(p.tls[1], false))
		p.must(p.ctr[0].UseTLS(p.tls[0]))
	}
}

// exchange moves n bytes by every kind of request, both ways, and checks each byte.
func (p *pair) exchange(n uint32, v byte) {
	p.tb.Helper()
	for side := range 2 {
		p.fill(side, 0, n, v)
		p.fill(1-side, 0, n, ^v)
		p.post(side, p.write(side, 0, n))
		p.runUntilIdle()
		p.pass(100 * time.Millisecond)
		p.outcomes(side, OutcomeSuccess)
		if !p.all(1-side, 0, n, v) {
			p.tb.Fatalf("side %d: a Write of %d bytes did not arrive", side, n)
		}
		p.receive(1-side, n, n)
		p.post(side, p.send(side, n))
		p.pass(100 * time.Millisecond)
		p.outcomes(side, OutcomeSuccess)
		p.outcomes(1-side, OutcomeSuccess)
		if !p.all(1-side, n, n, v) {
			p.tb.Fatalf("side %d: a Send of %d bytes did not arrive", side, n)
		}
	}
	p.fill(1, 0, n, v+1)
	p.post(0, p.read(0, n))
	p.pass(100 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	if !p.all(0, 0, n, v+1) {
		p.tb.Fatalf("a Read of %d bytes did not arrive", n)
	}
}

// Every request arrives whole over an encrypted connection (PROTOCOL §10.1), for each cipher, packet size and length, and no packet of it is in plain.
func TestSealedConnection(t *testing.T) {
	for _, suite := range []secure.Suite{0x1301, 0x1302, 0x1303} {
		for _, maxPacket := range []int{wire.MinPacket, 1472, 8972, 65507} {
			p := newSealedPair(t, maxPacket, suite, Config{}).connect()
			plain := 0
			for side := range 2 {
				p.link[side].mangle = func(b []byte) bool {
					if h, _ := wire.ParseBaseHeader(b); !h.Secure() {
						plain++
					}
					return true
				}
			}
			for i, n := range []uint32{1, 64, 1400, 5000, 100_000} {
				p.exchange(n, byte(10*i+1))
			}
			if plain != 0 {
				t.Errorf("suite %#x, packets of %d: %d left in plain", suite, maxPacket, plain)
			}
			for side, e := range p.eng {
				s := e.Stats()
				if s.Drops[wire.DropTag]+s.Drops[wire.DropReplay]+s.Drops[wire.DropGeneration]+s.Drops[wire.DropPlain]+s.Retransmits != 0 {
					t.Errorf("suite %#x, packets of %d, side %d: %v", suite, maxPacket, side, s.DropsByName())
				}
			}
		}
	}
}

// A poll of an encrypted connection allocates nothing (I10): small and long requests, several frames, forged packets.
func TestSealedAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, maxPacket := range []int{1408, 8972} {
		p := newSealedPair(t, maxPacket, testSuite, Config{}).connect()
		var rs [64]Result
		small, big, send, into := p.write(0, 0, 64), p.write(0, 0, 20000), p.send(1, 3000), p.sge(0, 0, 4000)
		allocates(t, p, func() {
			_, _ = p.qp[0].PostReceive(1, into, 4000)
			p.post(0, small)
			p.post(0, big)
			p.post(1, send)
			p.runUntilIdle()
			p.drain(rs[:])
		})
		forged := p.catch(func() { p.post(0, p.write(0, 0, 64)) })[0]
		forged[len(forged)-1] ^= 1
		t1 := &TxPacket{N: 1, Len: len(forged)}
		t1.Frags[0].Data = forged
		from, to := p.conn(1).identity.remote, wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}
		allocates(t, p, func() {
			p.link[1].deliver(t1, from, to)
			p.eng[1].Run(p.now)
		})
		if s := p.eng[1].Stats(); s.Drops[wire.DropTag] < 500 {
			t.Errorf("%v", s.DropsByName())
		}
	}
}

// ciphersOfKey is how many objects crypto/cipher allocates for a key at most.
const ciphersOfKey = 2

// An encrypted stream by the bulk path allocates nothing (I10) but the ciphers of new keys.
func TestSealedBulkAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	often := secure.Standard
	often.Update, often.Every = 1000, 0
	for _, limits := range []KeyLimits{secure.Standard, often} {
		p := newSealedPair(t, 1408, testSuite, Config{BulkPort: bulkPort, BulkAlways: true, KeyLimits: limits}).connect().warmedUp()
		for _, l := range p.link {
			l.allocateFrames()
		}
		big, read := p.write(0, 0, 200_000), p.read(0, 200_000)
		var rs [64]Result
		stream := func() {
			p.post(0, big)
			p.post(0, read)
			p.pass(10 * time.Millisecond)
			if p.drain(rs[:]) != 2 {
				t.Fatal("a request is not over")
			}
		}
		for range 300 {
			stream()
		}
		updates := func() uint64 { return p.eng[0].Stats().KeyUpdates + p.eng[1].Stats().KeyUpdates }
		var keys uint64
		bulk := p.eng[0].Stats().BulkPacketsOut
		allocations := testing.AllocsPerRun(1, func() {
			keys = updates()
			for range 100 {
				stream()
			}
			keys = updates() - keys
		})
		if most := float64(2 * ciphersOfKey * keys); allocations > most {
			t.Errorf("%v allocations, of %d key updates", allocations, keys)
		}
		if changes := limits.Update < 1<<20; changes != (keys > 0) || p.eng[0].Stats().BulkPacketsOut == bulk {
			t.Errorf("%d key updates, %d packets by the bulk path", keys, p.eng[0].Stats().BulkPacketsOut-bulk)
		}
	}
}

// A keep-alive of an encrypted connection allocates only the ciphers: for each direction at each end, once for the PING and its answer.
func TestSealedKeepAliveAllocatesOnlyCiphers(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := newSealedPair(t, 1408, testSuite, Config{}).connect()
	p.makeIdle()
	pings := 0
	p.link[1].mangle = func([]byte) bool { pings++; return true }
	round := func() {
		before, end := pings, p.now.Add(2*p.eng[0].cfg.KeepAlive)
		for pings == before || p.conn(0).traffic != nil || p.conn(1).traffic != nil {
			if p.pass(p.eng[0].cfg.IdleAfter); p.now > end {
				t.Fatalf("%d packets; the connection is not idle again", pings-before)
			}
		}
	}
	for range 10 {
		round()
	}
	const most = 2 * 2 * ciphersOfKey
	if n := testing.AllocsPerRun(20, round); n > most {
		t.Errorf("%v allocations of a keep-alive, want at most %d", n, most)
	}
}

// Keys change while data move, also while packets are lost, and no byte changes (PROTOCOL §10.4).
func TestKeysChangeWhileDataMove(t *testing.T) {
	for _, loseNth := range []int{0, 7} {
		p := sealedPair(t, 1408, KeyLimits{Update: 20, Age: time.Hour, Most: 1 << 23, Forged: 1 << 36, Keep: 2 * time.Second}).connect()
		p.link[0].loseNth, p.link[1].loseNth = loseNth, loseNth
		for i := range 4 {
			p.exchange(60_000, byte(20*i+1))
		}
		for side := range 2 {
			k := p.conn(side).end.keys
			s := p.eng[side].Stats()
			if out, in := k.Out.Generation(), p.conn(1-side).end.keys.In.Generation(); out < 5 || in != out || s.KeyUpdates != uint64(out-1) {
				t.Errorf("side %d seals with generation %d after %d updates, the peer opens generation %d", side, out, s.KeyUpdates, in)
			}
			if s.Drops[wire.DropTag]+s.Drops[wire.DropGeneration] != 0 {
				t.Errorf("side %d, each %d. lost: %v", side, loseNth, s.DropsByName())
			}
		}
	}
}

// An idle connection has no cipher and no window, and wakes with the keys that it had.
func TestSealedConnectionRests(t *testing.T) {
	p := sealedPair(t, 1408, KeyLimits{}).connect()
	for i := range 3 {
		p.exchange(100, byte(i+1))
		p.pass(3 * time.Second)
		for side := range 2 {
			k := p.conn(side).end.keys
			if use := p.eng[side].PoolUse(); p.conn(side).traffic != nil || k.Out.Ready() || k.In.Ready() || use != (PoolUse{}) {
				t.Fatalf("side %d does not rest: %+v", side, use)
			}
		}
	}
	for side := range 2 {
		if g := p.conn(side).end.keys.Out.Generation(); g != 1 {
			t.Errorf("side %d has generation %d", side, g)
		}
	}
	keys := p.conn(0).end.keys
	p.ctr[0].Close()
	p.pass(time.Minute)
	if keys.Out != (secure.Sealer{}) || keys.In != (secure.Opener{}) {
		t.Error("keys of a connection that is over are left")
	}
	for side := range 2 {
		if use := p.eng[side].PoolUse(); use != (PoolUse{}) {
			t.Errorf("side %d: %+v", side, use)
		}
	}
}

// No frame that the device, the kernel or a broker can read ever holds plaintext: neither payload nor tokens.
func TestNoPlaintextInFrames(t *testing.T) {
	for _, maxPacket := range []int{1408, 8972, 65507} {
		p := sealedPair(t, maxPacket, KeyLimits{}).connect()
		for side := range 2 {
			p.link[side].poison = nil // what a frame held stays there
			copy(p.reg[side].Bytes(), bytes.Repeat([]byte("plaintext of a program. "), 10000))
		}
		for _, n := range []uint32{24, 5000, 100_000} {
			for side := range 2 {
				p.receive(1-side, 1<<20, n)
				p.post(side, p.write(side, 0, n))
				p.post(side, p.send(side, n))
			}
			p.post(0, p.read(0, n))
			p.pass(100 * time.Millisecond)
			p.results(0)
			p.results(1)
		}
		for side := range 2 {
			token := binary.BigEndian.AppendUint32(nil, uint32(p.reg[side].Token()))
			for _, frames := range [][][]byte{p.link[0].txFrames, p.link[0].rxFrames, p.link[1].txFrames, p.link[1].rxFrames} {
				for _, frame := range frames {
					if bytes.Contains(frame, []byte("plaintext of a ")) || bytes.Contains(frame, token) {
						t.Fatalf("packets of %d: a frame holds plaintext", maxPacket)
					}
				}
			}
		}
	}
}
