package provider

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/wire"
)

// Attacks by hosts that are not a peer of any connection, one test for each. Without encryption the protocol cannot prevent two
// attacks: reading or changing packets on the path, and forging checksums, because the CRC detects damage alone.

// stranger makes a REQ that any host could send.
func stranger(from [16]byte, id uint64, nd uint16, cookie, private []byte) *forged {
	h := wire.Hello{
		ConnID: id, Nonce: id, SrcPort: nd, DstPort: pairPort, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version,
		MaxPacket: 1408, Window: 16, Cookie: cookie, Private: private,
	}
	return asking(from, &h)
}

// asking makes a REQ with the fields h.
func asking(from [16]byte, h *wire.Hello) *forged {
	f := &forged{from: wire.Endpoint{IP: from, Port: wire.SourcePort(h.ConnID)}}
	f.control(wire.CtlREQ, h.Append(nil))
	f.body = append(f.body, make([]byte, wire.MinPacket-wire.BaseHeaderLen-len(f.body))...)
	return f
}

// address returns an IPv4 address that no engine has.
func address(n uint32) (ip [16]byte) {
	ip = pairIP[0]
	ip[12] = 10
	ip[13], ip[14], ip[15] = byte(n>>16), byte(n>>8), byte(n)
	return ip
}

func newLanes() [2]*lane { return [2]*lane{newLane(0), newLane(1)} }

// A flood of REQs from spoofed addresses uses almost no memory and does not keep honest hosts out. CookiesSent counts it.
func TestAttackFloodOfRequests(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	w.listen()
	w.sent = func(f flight) bool { return f.at.IP == pairIP[0] || f.at.IP == pairIP[1] }
	rng := rand.New(rand.NewPCG(8, 8))
	flood := func() {
		for range 2000 {
			w.inject(stranger(address(rng.Uint32()), rng.Uint64()|1, 5, nil, nil))
			w.now += 50_000 // 20,000 REQs a second
		}
	}
	for range 10 {
		flood()
	}
	s := w.eng[1].Stats()
	if s.Connections != guard.Unproven || s.CookiesSent != 20000-guard.Unproven || w.eng[1].guard.Sources.Len() > guard.Unproven {
		t.Errorf("%+v", s)
	}
	// The attackers' requests wait in the queue until the honest application gets and rejects them.
	for range len(w.l.queue) {
		k := w.eng[1].NewConnector()
		_ = w.l.GetRequest(k, func(Outcome) {})
		k.Close()
	}
	flood()
	for range len(w.l.queue) {
		k := w.eng[1].NewConnector()
		_ = w.l.GetRequest(k, func(Outcome) {})
		k.Close()
	}
	if _, ok := w.connect(w.qp); !ok {
		t.Error("an honest request did not get through")
	}
	if w.eng[1].Stats().CookiesSent <= s.CookiesSent {
		t.Error("without a cookie")
	}
	w.pass(20*time.Second, func() {})
	if n := w.eng[1].Stats().Connections; n != 1 {
		t.Errorf("%d connections are left", n)
	}
}

// A host that proves its address gets its share of connections. Further REQs of that host get no answer, and other hosts still
// connect. SourceLimited and Drops[backlog] count them.
func TestAttackExhaustionByOneSource(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	w.listen()
	greedy := address(1)
	for i := range uint64(guard.MaxSourceHalfOpen + 500) {
		answers := w.inject(stranger(greedy, 1+i*997, uint16(i), nil, nil))
		if len(answers) == 1 && opcode(answers[0]) == wire.CtlRETRY {
			w.inject(stranger(greedy, 1+i*997, uint16(i), contents(answers[0])[wire.ControlHeaderLen:], nil))
		}
		w.now += 1000
	}
	s := w.eng[1].Stats()
	if s.Connections != guard.MaxSourceHalfOpen || s.SourceLimited != 500 || s.Drops[wire.DropBacklog] != 500 || s.Refused != 0 {
		t.Errorf("%d open, %+v", s.Connections, s)
	}
	if !w.admits(stranger(address(2), 5, 5, nil, nil)) {
		t.Error("another source is kept out, or asked for a cookie")
	}
	for range guard.MaxSourceHalfOpen {
		w.eng[1].guard.Sources.Move(guard.SourceOf(greedy), guard.ShareHalfOpen, guard.ShareEstablished)
	}
	for range guard.MaxSourceConns - guard.MaxSourceHalfOpen {
		w.eng[1].guard.Sources.Move(guard.SourceOf(greedy), guard.ShareNone, guard.ShareEstablished)
	}
	w.now += 1000_000_000
	got := w.inject(stranger(greedy, 3, 60000, nil, nil)) // with the PENDs of all who wait
	if !slices.ContainsFunc(got, func(b []byte) bool { return opcode(b) == wire.CtlRETRY }) {
		t.Error("established connections do not count")
	}
}

// Cookies of other hosts, other requests and other periods are invalid. CookiesRefused counts them.
func TestAttackForeignCookies(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	w.eng[1].fillBacklogs() // every REQ needs a cookie
	req := func(from [16]byte, id uint64, cookie []byte, private string) []byte {
		got := w.inject(stranger(from, id, 5, cookie, []byte(private)))
		if len(got) != 1 {
			t.Fatalf("%d answers", len(got))
		}
		return got[0]
	}
	cookie := req(address(1), 9, nil, "x")[wire.ControlOffset+wire.ControlHeaderLen:]
	for i, try := range []func() []byte{
		func() []byte { return req(address(2), 9, cookie, "x") },
		func() []byte { return req(address(1), 10, cookie, "x") },
		func() []byte { return req(address(1), 9, cookie, "y") },
		func() []byte { return req(address(1), 9, cookie, "") },
		func() []byte { return req(address(1), 9, make([]byte, 16), "x") },
		func() []byte { w.now = w.now.Add(2 * guard.CookiePeriod); return req(address(1), 9, cookie, "x") },
		func() []byte { w.now = w.now.Add(1000 * guard.CookiePeriod); return req(address(1), 9, cookie, "x") },
	} {
		if opcode(try()) != wire.CtlRETRY || w.eng[1].Stats().CookiesRefused != uint64(i+1) || w.eng[1].Stats().Connections != 0 {
			t.Errorf("case %d: %+v", i, w.eng[1].Stats())
		}
	}
	cookie = req(address(1), 9, nil, "x")[wire.ControlOffset+wire.ControlHeaderLen:]
	w.now = w.now.Add(guard.CookiePeriod)
	if !w.admits(stranger(address(1), 9, 5, cookie, []byte("x"))) {
		t.Error("a cookie of the period before is refused")
	}
}

// Nothing of a forged packet is used (I3). An attacker needs both a connection's id and its addresses and ports to reach the
// connection. Drops[unknown_conn], Drops[rate] and Drops[address] count the packets.
func TestAttackInjection(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.link[0].mangle = func([]byte) bool { return false }
	rng := rand.New(rand.NewPCG(9, 9))
	before := p.eng[1].Stats()
	rx := p.conn(1).expects()
	const tries = 5000
	for range tries {
		f := p.forge(1)
		f.fields.ConnID = p.conn(1).identity.id&(1<<24-1) | rng.Uint64()<<24
		p.inject(1, f)
		p.eng[1].Run(p.now)
	}
	for range 100 {
		f := p.forge(1)
		f.from.IP = address(rng.Uint32())
		p.inject(1, f)
		p.eng[1].Run(p.now)
	}
	d := p.eng[1].Stats().Drops
	if d[wire.DropUnknownConn]+d[wire.DropRate]-before.Drops[wire.DropUnknownConn] != tries || d[wire.DropAddress] != 100 || p.conn(1).expects() != rx {
		t.Errorf("%v", d)
	}
	if out := p.eng[1].Stats().PacketsOut - before.PacketsOut; out > guard.MaxSourceResets {
		t.Errorf("%d answers", out)
	}
}

// A packet with this host's address as its source belongs to no connection. The XDP program passes frames from the wire with a
// local source address to the kernel (package bpf). Drops[address] counts them, and Drops[path] counts those from the peer's own
// host.
func TestAttackFromTheSameHost(t *testing.T) {
	p := newPair(t, 1408).connect()
	for _, from := range []wire.Endpoint{
		{IP: pairIP[1], Port: p.conn(1).identity.remote.Port}, {IP: pairIP[1], Port: wire.DefaultPort}, {IP: pairIP[0], Port: wire.DefaultPort},
	} {
		f := p.forge(1)
		f.from = from
		f.fields.Number += portReach // the attacker knows the id and not the numbers
		p.inject(1, f)
	}
	p.runUntilIdle()
	if d := p.eng[1].Stats().Drops; d[wire.DropAddress] != 2 || d[wire.DropPath] != 1 {
		t.Errorf("%v", d)
	}
	p.post(0, p.write(0, 0, 100))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
}

// Forged DREQ, REJ, RST and ACK with guessed numbers do not end a connection (PROTOCOL §7.4). Drops[unknown_conn], Drops[rst_token]
// and Drops[ack_range] count them.
func TestAttackBlindEnding(t *testing.T) {
	p := newPair(t, 1408).connect()
	rng := rand.New(rand.NewPCG(10, 10))
	controls := map[wire.Opcode][]byte{
		wire.CtlDREQ: nil, wire.CtlDREP: nil, wire.CtlREJ: make([]byte, 4),
	}
	for op, body := range controls {
		for range 50 {
			f := p.forge(1)
			f.control(op, body)
			f.fields.ConnID ^= (1 + rng.Uint64N(1<<40-1)) << 24
			p.inject(1, f)
		}
	}
	for i := range 8 * wire.ResetTokenLen {
		m := wire.Reset{ConnID: p.conn(0).identity.id, Token: p.conn(1).identity.peerToken}
		m.Token[i/8] ^= 1 << (i % 8)
		f := p.forge(1)
		f.control(wire.CtlRST, m.Append(nil))
		f.fields.ConnID = 0
		p.inject(1, f)
	}
	f := p.forge(1) // id and address are right, and the ACK block names a packet that was never sent
	f.alone(p.acks(7, 0))
	p.inject(1, f)
	p.runUntilIdle()
	d := p.eng[1].Stats().Drops
	if d[wire.DropUnknownConn] != 150 || d[wire.DropRSTToken] != 8*wire.ResetTokenLen || d[wire.DropAckRange] != 1 {
		t.Errorf("%v", d)
	}
	if p.ctr[1].State() != CtrEstablished || p.qp[1].State() != QPReady {
		t.Error(p.ctr[1].State())
	}
}

// No packet of an attacker makes the host send more bytes than it received. All answers to a REQ together are at most three times
// its size while the address is not proven. Drops[rate] counts refused answers.
func TestAttackAmplification(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	sizes := map[int]int{}
	answered := func(f *forged, what string) {
		n := len(f.bytes())
		for _, a := range w.inject(f) {
			if len(a) > n {
				t.Errorf("%s: %d bytes for %d", what, len(a), n)
			}
			sizes[n]++
		}
		w.now = w.now.Add(time.Second)
	}
	for op := wire.Opcode(0x10); op < 0x2a; op++ {
		for _, n := range []int{0, 4, 8, 16, 20, 32, 68, 600} {
			for _, id := range []uint64{0, 12345} {
				f := &forged{from: wire.Endpoint{IP: address(1), Port: wire.SourcePort(3)}}
				f.control(op, make([]byte, n))
				f.fields.ConnID = id
				answered(f, op.String())
			}
		}
	}
	for n := range 100 { // packets of operations
		f := &forged{from: wire.Endpoint{IP: address(1), Port: 50000}, body: make([]byte, n), fields: wire.BaseFields{Operations: true, ConnID: 777}}
		answered(f, "data")
	}
	if len(sizes) == 0 {
		t.Error("nothing was answered at all")
	}
	f := stranger(address(1), 3, 3, nil, nil)
	binary.BigEndian.PutUint16(f.body[wire.ControlHeaderLen+18:], 1) // no listener has this port
	answered(f, "REQ")

	// The number of answers is limited as well.
	sent := 0
	for range 1000 {
		f := &forged{from: wire.Endpoint{IP: address(1), Port: 50000}, body: make([]byte, 100), fields: wire.BaseFields{Operations: true, ConnID: 777}}
		sent += len(w.inject(f))
	}
	if d := w.eng[1].Stats().Drops[wire.DropRate]; sent > guard.MaxSourceResets || d < 900 {
		t.Errorf("%d answers, %d held back", sent, d)
	}
	sent = 0
	for i := range uint32(1000) {
		f := &forged{from: wire.Endpoint{IP: address(i), Port: 50000}, body: make([]byte, 100), fields: wire.BaseFields{Operations: true, ConnID: 777}}
		sent += len(w.inject(f))
	}
	if sent > guard.MaxResets {
		t.Errorf("%d answers", sent)
	}
}

// An application that accepts every request with the most private data does not make the host an amplifier.
func TestAttackAmplificationByAccept(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	var got promise
	_ = w.l.GetRequest(w.ctr[1], got.finish)
	f := stranger(address(1), 3, 3, nil, nil)
	bytes := 0
	for _, a := range w.inject(f) {
		bytes += len(a)
	}
	w.sent = func(f flight) bool { bytes += len(f.data); return false }
	if o := w.ctr[1].Accept(w.qp[1], ConnectParams{Private: make([]byte, 512)}, func(Outcome) {}); o != OutcomeSuccess {
		t.Fatal(o)
	}
	w.pass(10*time.Second, func() {})
	if in := len(f.bytes()); bytes < in || bytes > 3*in+700 { // and a REJ at the end
		t.Errorf("%d bytes for %d", bytes, in)
	}
}

// A REQ with an invalid item is dropped as a whole before anything is stored. A REQ with unknown items is accepted, however many
// there are. Drops[item] counts invalid ones.
func TestAttackItems(t *testing.T) {
	item := func(kind, n uint16, value ...byte) []byte {
		return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, kind), n), value...)
	}
	many := []byte(nil)
	for kind := range uint16(200) {
		many = append(many, item(100+kind, 0)...)
	}
	for name, c := range map[string]struct {
		items []byte
		drop  wire.DropReason
	}{
		"half a header":            {[]byte{0, 1}, wire.DropItem},
		"behind the message":       {item(77, 5, 1, 2, 3, 4), wire.DropItem},
		"longer than any packet":   {item(77, 65535, 1, 2, 3, 4), wire.DropItem},
		"a cookie of four bytes":   {item(1, 4, 1, 2, 3, 4), wire.DropItem},
		"no private data":          {item(2, 0), wire.DropItem},
		"too much private data":    {item(2, 513, make([]byte, 516)...), wire.DropItem},
		"twice":                    {append(item(2, 1, 1, 0, 0, 0), item(2, 1, 1, 0, 0, 0)...), wire.DropItem},
		"twice, unknown":           {append(item(77, 0), item(77, 0)...), wire.DropItem},
		"padding":                  {item(77, 1, 1, 2, 0, 0), wire.DropItem},
		"many that nobody knows":   {many, wire.DropNone},
		"long, and nobody knows":   {item(78, 900, make([]byte, 900)...), wire.DropNone},
		"the one that is reserved": {item(0xffff, 16, make([]byte, 16)...), wire.DropNone},
	} {
		w := newWorld(newLanes(), 0, Config{})
		w.listen()
		h := wire.Hello{
			ConnID: 7, Nonce: 7, SrcPort: 5, DstPort: pairPort, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: 1408, Window: 16,
		}
		f := asking(address(1), &h)
		f.control(wire.CtlREQ, append(h.Append(nil), c.items...))
		f.body = append(f.body, make([]byte, wire.MinPacket-wire.BaseHeaderLen-len(f.body))...)
		answers := w.inject(f)
		s := w.eng[1].Stats()
		if s.Drops[c.drop] != 1 && c.drop != wire.DropNone || (s.Connections == 0) != (c.drop != wire.DropNone) || len(answers) > 0 {
			t.Errorf("%s: %d answers, %d connections, %v", name, len(answers), s.Connections, s.Drops)
		}
	}
}

// Each side sends an unknown item, and repeats the same item in retransmissions (PROTOCOL §7.1).
func TestGreaseIsSentAndRepeated(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	said := map[wire.Opcode]map[string]bool{wire.CtlREQ: {}, wire.CtlREP: {}}
	lost := 2
	w.sent = func(f flight) bool {
		op := opcode(f.data)
		if sequenced(f.data) || said[op] == nil {
			return true
		}
		var h wire.Hello
		at, _ := wire.ContentOffset(f.data)
		msg, _ := wire.ParseControl(f.data, at, len(f.data))
		if d := wire.ParseHello(msg.Body, &h); d != wire.DropNone || h.Grease.Type < wire.ItemGrease || len(h.Grease.Value) > wire.MaxGrease {
			t.Errorf("%v: %v, %+v", op, d, h.Grease)
		}
		said[op][fmt.Sprint(h.Grease)] = true
		lost--
		return lost < 0
	}
	if _, ok := w.connect(w.qp); !ok {
		t.Fatal("no connection")
	}
	if len(said[wire.CtlREQ]) != 1 || len(said[wire.CtlREP]) != 1 || lost >= -1 {
		t.Errorf("%v, %d more", said, -lost)
	}
}

// An attacker's choice of connection ids does not decide in which slot of a table our side stores anything. No counter exists for
// this.
func TestAttackTables(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	w.listen()
	e := w.eng[1]
	for i := range uint64(1000) {
		w.inject(stranger(address(uint32(i)), i<<24|5, 5, nil, nil)) // all with the same low bits
		w.now = w.now.Add(4 * time.Millisecond)
	}
	high := map[uint64]bool{}
	for c := range e.group.conns.all {
		high[c.identity.id>>24] = true
		if of := &e.group.conns; of.lookup(c.identity.id) != c || of.lookup(c.identity.id^1<<40) != nil || of.lookup(c.identity.peerID) == c {
			t.Fatal("an id leads astray")
		}
	}
	if len(high) != 1000 {
		t.Errorf("%d different ids", len(high))
	}
}

// A flood costs no memory at all: neither an answer nor a drop allocates.
func TestAttackGarbage(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := newPair(t, 1408)
	l := p.eng[1].NewListener()
	_, o := l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort})
	p.must(o)
	p.must(l.Listen(1))
	p.eng[1].fillBacklogs()
	p.link[0].mangle = func([]byte) bool { return false }
	nobody := stranger(address(1), 3, 3, nil, nil)
	binary.BigEndian.PutUint16(nobody.body[wire.ControlHeaderLen+18:], 1)
	unknown := &forged{from: wire.Endpoint{IP: address(1), Port: 50000}, body: make([]byte, 100), fields: wire.BaseFields{Operations: true, ConnID: 777}}
	for name, f := range map[string]*forged{
		"RETRY": stranger(address(1), 3, 3, nil, nil), "bad cookie": stranger(address(1), 3, 3, make([]byte, 16), nil), "REJ": nobody, "RST": unknown,
	} {
		to := wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}
		b := f.bytes()
		tx := &TxPacket{N: 1, Len: len(b)}
		tx.Frags[0].Data = b
		out := p.eng[1].Stats().PacketsOut
		if n := testing.AllocsPerRun(200, func() {
			p.link[1].deliver(tx, f.from, to)
			p.now = p.now.Add(time.Second)
			p.eng[1].Run(p.now)
		}); n > 0.5 { // the cookie key changes every ten seconds
			t.Errorf("%s: %v allocations", name, n)
		}
		if sent := p.eng[1].Stats().PacketsOut - out; sent != 201 {
			t.Errorf("%s: %d answers", name, sent)
		}
	}
}

// A refused REQ counts once, under the reason for which it was refused.
func TestRefusedRequestsCountByReason(t *testing.T) {
	honest := wire.Hello{
		ConnID: 7, Nonce: 7, SrcPort: 5, DstPort: pairPort, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: 1408, Window: 16,
	}
	for want, change := range map[wire.DropReason]func(*wire.Hello){
		wire.DropVersion:    func(h *wire.Hello) { h.SrcPort, h.MinVersion, h.MaxVersion = 6, wire.Version+1, wire.Version+1 },
		wire.DropNoListener: func(h *wire.Hello) { h.DstPort++ },
		wire.DropState:      func(h *wire.Hello) { h.DstPort = 8 }, // the addresses of a connection attempt of our side
	} {
		w := newWorld(newLanes(), 0, Config{})
		w.listen()
		if !w.admits(asking(address(1), &honest)) {
			t.Fatalf("%v: the first request was refused", want)
		}
		at := wire.Endpoint{IP: address(1), Port: honest.SrcPort}
		_ = w.eng[1].NewConnector().connect(w.qp[1], wire.Endpoint{IP: pairIP[1], Port: 8}, at, ConnectParams{}, func(Outcome) {})
		w.pass(time.Millisecond, func() {})
		refused := honest
		refused.ConnID, refused.Nonce = 9, 9
		change(&refused)
		before := w.eng[1].Stats()
		if answers := w.inject(asking(address(1), &refused)); len(answers) != 1 || opcode(answers[0]) != wire.CtlREJ {
			t.Errorf("%v: answered by %x", want, answers)
		}
		after := w.eng[1].Stats()
		for d := range wire.NumDropReasons {
			if n := after.Drops[d] - before.Drops[d]; (n == 1) != (d == want) || n > 1 {
				t.Errorf("%v: %d counted as %v", want, n, d)
			}
		}
		if after.Refused != before.Refused+1 {
			t.Errorf("%v: %d refused", want, after.Refused-before.Refused)
		}
	}
}
