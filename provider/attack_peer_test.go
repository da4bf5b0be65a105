package provider

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/wire"
)

// Attacks by a peer, or by an attacker that knows as much as a peer: connection ids, addresses, packet numbers and message numbers.

// aim makes the forged packet carry one operation with this payload.
func (f *forged) aim(op wire.Op, payload []byte) *forged {
	op.Flags |= wire.OpLast
	op.Length = uint16(len(payload))
	f.ops(op)
	copy(f.body[len(f.body)-len(payload):], payload)
	return f
}

// A packet that is valid but for damage, of whatever kind, does not put a queue pair into the error state. Drops[crc] and the drop
// reasons of the header count it.
func TestAttackForcedError(t *testing.T) {
	p := newPair(t, 1408).connect()
	f := p.forge(1)
	before := p.eng[1].Stats().Drops
	n := len(f.bytes())
	for bit := range 8 * n {
		f.spoil = func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b }
		p.inject(1, f)
		p.eng[1].Run(p.now)
	}
	for cut := range n {
		f.spoil = func(b []byte) []byte { return b[:cut] }
		if cut > 1 {
			p.inject(1, f)
			p.eng[1].Run(p.now)
		}
	}
	counted := uint64(0)
	for i, d := range p.eng[1].Stats().Drops {
		counted += d - before[i]
	}
	if counted != uint64(9*n-2) || p.eng[1].Stats().Drops[wire.DropCRC] == 0 || p.qp[1].State() != QPReady {
		t.Errorf("%d of %d, %v", counted, 9*n-2, p.qp[1].State())
	}
	p.runUntilIdle()
	p.post(0, p.write(0, 0, 100))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
}

// The first wrong token ends the connection, so each guess of a token costs the attacker a connection. Drops[token] counts it.
func TestAttackTokenGuessing(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for range 5 {
		p := newPair(t, 1408).connect()
		for range 3 { // several guesses in one packet are no better than one
			f := p.forge(1).aim(wire.Op{Opcode: wire.OpWrite, Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token()) ^ (1 + rng.Uint32N(1<<16-1))}, []byte{1})
			p.inject(1, f)
		}
		p.runUntilIdle()
		if d := p.eng[1].Stats().Drops[wire.DropToken]; d != 1 || p.ctr[1].State() != CtrLost || !p.all(1, 0, 100, 0) {
			t.Errorf("%d guesses, %v", d, p.ctr[1].State())
		}
		if _, writes := p.reg[1].RemoteAccesses(); writes != 0 {
			t.Error("something was written")
		}
	}
}

// The peer cannot tell from the answer why a token failed. Drops[token] counts it, whatever the reason.
func TestAttackTokenOracle(t *testing.T) {
	var answers [][]byte
	for name, op := range map[string]func(p *pair) wire.Op{
		"generation": func(p *pair) wire.Op { return wire.Op{Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token()) ^ 1} },
		"slot": func(p *pair) wire.Op {
			return wire.Op{Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token()) ^ 1<<31}
		},
		"right": func(p *pair) wire.Op {
			r, _ := p.mem[1].Register(make([]byte, 64), RightRemoteRead)
			return wire.Op{Address: r.Base(), Token: uint32(r.Token())}
		},
		"bounds": func(p *pair) wire.Op { return wire.Op{Address: p.reg[1].Base() - 1, Token: uint32(p.reg[1].Token())} },
		"gone": func(p *pair) wire.Op {
			r, _ := p.mem[1].Register(make([]byte, 64), RightRemoteWrite)
			p.mem[1].Deregister(r)
			return wire.Op{Address: r.Base(), Token: uint32(r.Token())}
		},
	} {
		p := newPair(t, 1408).connect()
		o := op(p)
		o.Opcode = wire.OpWrite
		p.link[0].mangle = func(b []byte) bool {
			if sequenced(b) {
				answers = append(answers, append([]byte(nil), contents(b)...))
			}
			return true
		}
		p.inject(1, p.forge(1).aim(o, []byte{1}))
		p.turn()
		if d := p.eng[1].Stats().Drops[wire.DropToken]; d != 1 {
			t.Errorf("%s: %d", name, d)
		}
		if f, at := answers[len(answers)-1], answers[0]; !bytes.Equal(at, f) {
			t.Errorf("%s: % x, not % x", name, f, at)
		}
	}
}

// READs beyond the inbound read limit end the connection of the peer that sends them, and our own side never exceeds the limit. A
// READ within the limit costs one slot, however long it is. Lost counts the connections.
func TestAttackReadFlood(t *testing.T) {
	p := newPair(t, 1408)
	p.limits[1] = ConnectParams{Inbound: 2, Outbound: 1}
	p.connect()
	for range 5 {
		p.post(0, p.read(0, 100))
	}
	p.turn()
	if n := p.conn(0).traffic.requests.reads.Waiting(); n != 2 {
		t.Errorf("%d READs are out", n)
	}
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess, OutcomeSuccess)
	p.link[0].mangle = func([]byte) bool { return false } // the attacker acknowledges no answers
	c := p.conn(1)
	for i := range uint32(3) {
		f := p.forge(1).aim(wire.Op{Opcode: wire.OpReadReq, Number: c.traffic.served.Next(), Address: p.reg[1].Base(), Token: uint32(p.reg[1].Token()), Total: 4 << 20}, nil)
		p.inject(1, f)
		p.eng[1].Run(p.now)
		if got := c.traffic.served.Waiting(); got > 2 {
			t.Fatalf("%d READs are served at once", got)
		}
		if lost := p.eng[1].Stats().Lost; lost != uint64(i/2) {
			t.Errorf("after %d READs %d connections are lost", i+1, lost)
		}
	}
	if term := c.traffic.served.Term(); p.conn(1) != nil || term.Reason != wire.TermReadLimit {
		t.Errorf("%v", term.Reason)
	}
}

// READs and WRITEs of a peer, which no application sees, are counted for each region. Region.RemoteAccesses counts them.
func TestAttackCovertAccess(t *testing.T) {
	p := newPair(t, 1408).connect()
	for range 3 {
		p.post(0, p.read(0, 10))
		p.post(0, p.write(0, 0, 10))
	}
	p.runUntilIdle()
	if reads, writes := p.reg[1].RemoteAccesses(); reads != 3 || writes != 3 {
		t.Errorf("%d reads, %d writes", reads, writes)
	}
}

// An attacker replays whole sessions: while the connection lives, while it lingers, and after its end. Nothing is written or
// created twice. Drops[duplicate], Drops[state], Drops[unknown_conn] and CookiesRefused count the packets.
func TestAttackReplay(t *testing.T) {
	p := newPair(t, 1408)
	p.eng[1].fillBacklogs() // every REQ needs a cookie
	var log []*forged
	recording := true
	p.link[1].mangle = func(b []byte) bool {
		if recording {
			log = append(log, &forged{body: append([]byte(nil), b...)})
		}
		return true
	}
	p.connect()
	from, id := p.conn(1).identity.remote, p.conn(1).identity.id
	p.fill(0, 0, 5000, 1)
	p.post(0, p.write(0, 0, 5000))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	p.fill(1, 0, 5000, 2)
	recording = false
	replay := func() {
		for _, f := range log {
			tx := &TxPacket{N: 1, Len: len(f.body)}
			tx.Frags[0].Data = f.body
			p.link[1].deliver(tx, from, wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort})
			p.eng[1].Run(p.now)
		}
	}
	replay()
	if !p.all(1, 0, 5000, 2) || p.eng[1].Stats().Drops[wire.DropDuplicate] < 4 || p.qp[1].State() != QPReady {
		t.Errorf("%+v", p.eng[1].Stats())
	}
	p.ctr[0].Close()
	p.ctr[1].Close()
	p.runUntilIdle()
	replay()
	p.pass(10 * time.Second)
	replay()
	p.pass(20 * time.Second)
	replay()
	p.pass(10 * time.Second)
	s := p.eng[1].Stats()
	if !p.all(1, 0, 5000, 2) || s.Established != 1 || s.CookiesRefused == 0 || s.Drops[wire.DropUnknownConn] == 0 || s.Connections != 0 {
		t.Errorf("%+v", s)
	}
	if p.eng[1].group.conns.lookup(id) != nil {
		t.Error("the connection is back")
	}
}

// Addresses near 2^64 and lengths near 2^32 do not wrap around. Drops[token] counts them.
func TestAttackOverflow(t *testing.T) {
	const top = ^uint64(0)
	for _, c := range []struct {
		addr func(r *Region) uint64
		n    uint32
	}{
		{func(*Region) uint64 { return top }, 1},
		{func(*Region) uint64 { return top - 99 }, 200},
		{func(r *Region) uint64 { return r.Base() + top }, 100},
		{func(r *Region) uint64 { return r.Base() + 4<<20 }, 1},
		{func(r *Region) uint64 { return r.Base() + 4<<20 - 99 }, 100},
		{func(r *Region) uint64 { return r.Base() }, 1<<32 - 1},
		{func(r *Region) uint64 { return r.Base() + 1 }, 4 << 20},
		{func(r *Region) uint64 { return top - uint64(len(r.Bytes())) }, 1 << 31},
		{func(*Region) uint64 { return 0 }, 1},
	} {
		for _, op := range []wire.Opcode{wire.OpWrite, wire.OpReadReq} {
			if op == wire.OpWrite && c.n > 1000 {
				continue // the length field of the operation is too short for this
			}
			p := newPair(t, 1408).connect()
			f := p.forge(1).aim(wire.Op{Opcode: op, Address: c.addr(p.reg[1]), Token: uint32(p.reg[1].Token()), Total: c.n}, nil)
			if op == wire.OpWrite {
				f = p.forge(1).aim(wire.Op{Opcode: op, Address: c.addr(p.reg[1]), Token: uint32(p.reg[1].Token())}, make([]byte, c.n))
			}
			p.inject(1, f)
			p.runUntilIdle()
			reads, writes := p.reg[1].RemoteAccesses()
			if p.eng[1].Stats().Drops[wire.DropToken] != 1 || p.ctr[1].State() != CtrLost || reads+writes != 0 {
				t.Errorf("%v of %d bytes at %#x: %v", op, c.n, f.body[4:12], p.ctr[1].State())
			}
		}
	}
}

// A token ends with its registration, also for READs that are being answered, and the next registration has another token.
// Drops[token] counts its use.
func TestAttackUseAfterDeregister(t *testing.T) {
	for _, total := range []uint32{16 << 10, 64 << 10} { // one answer shorter than the first window, and one longer
		p := newPair(t, 1408).connect()
		old, _ := p.mem[1].Register(make([]byte, 64<<10), RightRemoteRead|RightRemoteWrite)
		f := p.forge(1).aim(wire.Op{Opcode: wire.OpReadReq, Total: total, Address: old.Base(), Token: uint32(old.Token())}, nil)
		p.link[0].mangle = func(b []byte) bool { return false }
		p.inject(1, f)
		p.eng[1].Run(p.now)
		reads, _ := old.RemoteAccesses()
		p.mem[1].Deregister(old)
		p.pass(time.Millisecond)
		if p.conn(1) != nil { // the rest of the answer may have been refused already
			lives := p.forge(1) // the peer is alive, and acknowledges only the newest packet
			lives.alone(p.acks(-1, 0))
			p.inject(1, lives)
		} else if total == 16<<10 {
			t.Error("the connection is over before a repetition was asked for")
		}
		p.pass(time.Second) // the retransmissions and the rest of the answer
		if again, _ := old.RemoteAccesses(); again != reads || reads == 0 || p.eng[1].Stats().Drops[wire.DropToken] == 0 {
			t.Errorf("of %d bytes %d reads before, %d after", total, reads, again)
		}
	}
	m := NewMemory(rand.New(rand.NewPCG(1, 1)))
	seen := map[Token]bool{}
	for range 3 * memory.MaxRegions / 2 { // every slot of the table is used again
		r, err := m.Register(make([]byte, 8), RightRemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		if seen[r.Token()] && m.Lookup(r.Token()) != r {
			t.Fatal("a token of the past")
		}
		seen[r.Token()] = true
		m.Deregister(r)
		if m.Lookup(r.Token()) != nil {
			t.Fatal("a token outlives its region")
		}
	}
}

// Packets contain nothing of earlier contents of their frames. No counter exists for this, because it must not happen.
func TestAttackDisclosure(t *testing.T) {
	p := newPair(t, 1408)
	const secret = 0xa5
	for side := range 2 {
		for _, frame := range p.link[side].txFrames {
			for i := range frame {
				frame[i] = secret
			}
		}
		p.link[1-side].mangle = func(b []byte) bool {
			if bytes.Contains(b, []byte{secret, secret, secret}) {
				t.Fatalf("% x", b)
			}
			return true
		}
	}
	p.connect()
	for n := range uint32(40) {
		p.receive(1, 0, 100)
		p.post(0, p.write(0, 0, n))
		p.post(0, p.send(0, n))
		p.post(0, p.read(0, n))
		p.runUntilIdle()
		p.results(0)
		p.results(1)
	}
	p.ctr[0].Close()
	p.ctr[1].Close()
	p.pass(time.Second)
}

// Lengths that contradict each other are rejected in every field. Package wire tests frames and IP headers (TestParseFrameDrops).
// The drop reasons in the table count them.
func TestAttackLengths(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *forged)
		drop   wire.DropReason
	}{
		"payload beyond the packet": {func(f *forged) { f.body[2], f.body[3] = 0xff, 0xff }, wire.DropLength},
		"bytes behind the last":     {func(f *forged) { f.body = append(f.body, 1, 2, 3) }, wire.DropLength},
		"half an operation":         {func(f *forged) { f.body = append(f.body, f.body[:12]...) }, wire.DropLength},
		"an operation of nothing":   {func(f *forged) { f.body = append(f.body, make([]byte, 16)...) }, wire.DropOpcode},
		"no operation":              {func(f *forged) { f.body = nil }, wire.DropLength},
		"a last piece too short":    {func(f *forged) { f.ops(wire.Op{Opcode: wire.OpSend, Flags: wire.OpLast, Length: 4, Total: 5}) }, wire.DropLength},
		"a first piece too long":    {func(f *forged) { f.ops(wire.Op{Opcode: wire.OpWrite, Length: 5, Total: 4}) }, wire.DropLength},
		"all of it, and not last":   {func(f *forged) { f.ops(wire.Op{Opcode: wire.OpWrite, Length: 4, Total: 4}) }, wire.DropLength},
		"control body too long":     {func(f *forged) { f.control(wire.CtlPing, make([]byte, 4)); f.body[3] = 200 }, wire.DropShort},
		"bytes behind control":      {func(f *forged) { f.control(wire.CtlPong, make([]byte, 4)); f.body = append(f.body, 0) }, wire.DropTrailing},
	} {
		p := newPair(t, 1408).connect()
		f := p.forge(1)
		c.change(f)
		p.inject(1, f)
		p.runUntilIdle()
		if p.eng[1].Stats().Drops[c.drop] != 1 || !p.all(1, 0, 1000, 0) {
			t.Errorf("%s: %v", name, p.eng[1].Stats().Drops)
		}
	}
}

// Numbers that attackers must not guess are uniformly random: each bit is set half of the time, and no number occurs twice.
func TestUnpredictableNumbers(t *testing.T) {
	const n = 4096
	rng := rand.New(rand.NewChaCha8([32]byte{7}))
	mem := NewMemory(rng)
	e := New(Config{}, newLane(0), mem, rng)
	series := map[string][]uint64{}
	for range n {
		c := e.newConn(wire.Endpoint{}, wire.Endpoint{})
		series["id"] = append(series["id"], c.identity.id>>24)
		series["packet number"] = append(series["packet number"], c.traffic.sent.packets.Next())
		token := c.engine.guard.tokenOf(&c.identity, c.engine.cfg.ReceivePort)
		series["reset token"] = append(series["reset token"], uint64(token[0])|uint64(token[7])<<8|uint64(token[15])<<16)
		r, _ := mem.Register(make([]byte, 8), 0)
		series["token"] = append(series["token"], uint64(r.Token())&0xffff)
		series["address"] = append(series["address"], r.Base()>>12&(1<<40-1))
	}
	width := map[string]int{"id": 40, "packet number": 31, "reset token": 24, "token": 16, "address": 40}
	for name, vs := range series {
		for bit := range width[name] {
			ones, changes := 0, 0
			for i, v := range vs {
				ones += int(v >> bit & 1)
				if i > 0 {
					changes += int((v ^ vs[i-1]) >> bit & 1)
				}
			}
			for what, got := range map[string]int{"one": ones, "changed": changes} {
				if got < n/2-5*32 || got > n/2+5*32 { // five standard deviations
					t.Errorf("%s: bit %d is %s %d times of %d", name, bit, what, got, n)
				}
			}
		}
	}
}
