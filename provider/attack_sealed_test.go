package provider

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

// Attacks on encrypted connections, by somebody who reads and writes every packet on the path but has no keys, and by a peer with keys.
// Each attack changes nothing, gets no answer and is counted.

// few are limits that a test reaches.
var few = KeyLimits{
	Update: 1 << 20, Age: time.Hour, Most: secure.Reserve + 200, Forged: 5000, Keep: 2 * time.Second, Burst: 8, Every: 250 * time.Millisecond,
}

// catch returns the packets that arrive for side 1 while work runs. They do not arrive.
func (p *pair) catch(work func()) (packets [][]byte) {
	p.tb.Helper()
	p.link[1].mangle = func(b []byte) bool {
		packets = append(packets, bytes.Clone(b))
		return false
	}
	work()
	p.turn()
	p.link[1].mangle = nil
	if len(packets) == 0 {
		p.tb.Fatal("no packet was caught")
	}
	return packets
}

// deliver brings a packet to side, from its peer's address and port.
func (p *pair) deliver(side int, b []byte) {
	p.deliverFrom(side, p.conn(side).identity.remote, b, false)
}

func (p *pair) deliverFrom(side int, from wire.Endpoint, b []byte, bulk bool) {
	t := &TxPacket{N: 1, Len: len(b), Bulk: bulk}
	t.Frags[0].Data = b
	p.link[side].deliver(t, from, wire.Endpoint{IP: pairIP[side], Port: wire.DefaultPort})
	p.eng[side].Run(p.now)
}

// condition is everything that a packet can change of a connection, its memory and its engine, as text.
func (p *pair) condition(side int) string {
	c, e := p.conn(side), p.eng[side]
	s := e.Stats()
	return fmt.Sprint(c.expects(), c.traffic.sent.una(), c.traffic.received.numbers.Largest(), c.identity.remote, c.identity.peerPort, c.phase, c.identity.path,
		c.end.keys.In.Generation(), c.end.keys.Out.Generation(), c.requestNumbers, c.counters,
		s.PacketsOut, s.Challenges, s.Connections, s.Lost, bytes.Count(p.reg[side].Bytes(), []byte{0}), len(p.link[side].txFree))
}

// refuses delivers a packet to side and fails unless it is dropped for one of the reasons and changes nothing.
func (p *pair) refuses(side int, what string, b []byte, reasons ...wire.DropReason) {
	p.tb.Helper()
	before, drops := p.condition(side), p.eng[side].Stats().Drops
	p.deliver(side, b)
	p.unchanged(side, what, before, drops, reasons...)
}

// unchanged fails unless exactly one packet was dropped, for one of the reasons, and nothing else happened.
func (p *pair) unchanged(side int, what, before string, drops [wire.NumDropReasons]uint64, reasons ...wire.DropReason) {
	p.tb.Helper()
	if after := p.condition(side); after != before {
		p.tb.Fatalf("%s changed\n%s\nto\n%s", what, before, after)
	}
	now, dropped, total := p.eng[side].Stats().Drops, false, uint64(0)
	for d := range now {
		total += now[d] - drops[d]
		for _, r := range reasons {
			dropped = dropped || wire.DropReason(d) == r && now[d] == drops[d]+1
		}
	}
	if !dropped || total != 1 {
		s := p.eng[side].Stats()
		p.tb.Fatalf("%s was not dropped for %v: %v", what, reasons, s.DropsByName())
	}
}

// forgedKinds are packets of every kind with the header fields that an observer of the connection knows.
func forgedKinds(p *pair) map[string]*forged {
	all := map[string]*forged{}
	add := func(name string, change func(f *forged)) {
		f := p.forge(1)
		f.fields.Number++
		change(f)
		all[name] = f
	}
	add("operations", func(*forged) {})
	add("segment", func(f *forged) { f.fields.Offset = 64; f.piece(make([]byte, 64), false) })
	add("acknowledgement", func(f *forged) { f.alone(p.acks(-1, 0)) })
	for op := wire.CtlPing; op <= wire.CtlSHAKE; op++ {
		if op.IsControl() {
			add(op.String(), func(f *forged) { f.control(op, make([]byte, 8)) })
		}
	}
	return all
}

// Attack 1 and 7. A forged packet of every kind, sealed with a wrong tag or in plain with a right checksum, with the right id, number,
// port and generation.
func TestAttackForgedPackets(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	for name, f := range forgedKinds(p) {
		p.refuses(1, name+" in plain", f.bytes(), wire.DropPlain)
		f.fields.Flags |= wire.FlagSecure
		f.spoil = func(b []byte) []byte {
			wire.PutGeneration(b, 1)
			return append(b, make([]byte, wire.TagLen)...)
		}
		p.refuses(1, name+" with a wrong tag", f.bytes(), wire.DropTag)
	}
	p.exchange(100, 3)
}

// Attack 7. A sealed packet for a connection without encryption is dropped, also if it has a right checksum.
func TestAttackSealedPacketForPlainConnection(t *testing.T) {
	p := newPair(t, 1408).connect()
	before := p.eng[1].Stats()
	f := p.forge(1)
	f.fields.Flags |= wire.FlagSecure
	p.inject(1, f)
	p.eng[1].Run(p.now)
	if s := p.eng[1].Stats(); s.Drops[wire.DropSealed] != before.Drops[wire.DropSealed]+1 || s.PacketsOut != before.PacketsOut {
		t.Errorf("%v", s.DropsByName())
	}
	p.works()
}

// sealedKinds catches a sealed packet of each kind on its way to side 1: WRITE, SEND, READ_REQ, an acknowledgement with REPORT, DREQ.
func sealedKinds(p *pair) map[string][]byte {
	p.receive(1, 4096, 4096)
	p.runUntilIdle()
	kinds := map[string][]byte{}
	kinds["WRITE"] = p.catch(func() { p.post(0, p.write(0, 0, 40)) })[0]
	kinds["SEND"] = p.catch(func() { p.post(0, p.send(0, 40)) })[0]
	kinds["READ_REQ"] = p.catch(func() { p.post(0, p.read(0, 40)) })[0]
	kinds["REPORT"] = p.catch(func() { p.conn(0).traffic.sendAck(); p.eng[0].flush() })[0]
	kinds["DREQ"] = p.catch(func() { p.conn(0).traffic.say(wire.CtlDREQ, 0, nil); p.eng[0].flush() })[0]
	return kinds
}

// Attacks 2 and 3. Every single bit of a packet changed, and every other length.
func TestAttackChangedPackets(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	form := []wire.DropReason{wire.DropTag, wire.DropVersion, wire.DropReserved, wire.DropUnknownConn, wire.DropGeneration, wire.DropPlain, wire.DropRate, wire.DropShort, wire.DropReplay, wire.DropOld}
	for name, b := range sealedKinds(p) {
		for bit := range 8 * len(b) {
			changed := bytes.Clone(b)
			changed[bit/8] ^= 1 << (bit % 8)
			if bit/64 == 1 { // the connection id, for which a stranger may get an RST
				continue
			}
			p.refuses(1, fmt.Sprint(name, " with bit ", bit, " changed"), changed, form...)
		}
		for n := range b {
			p.refuses(1, fmt.Sprint(name, " of ", n, " bytes"), b[:n], form...)
		}
		p.refuses(1, name+" with another byte", append(bytes.Clone(b), 0), form...)
		p.refuses(1, name+" with its tag twice", append(bytes.Clone(b), b[len(b)-wire.TagLen:]...), form...)
	}
	if p.conn(1).end.keys.In.Generation() != 1 {
		t.Error("the generation changed")
	}
}

// Attack 4. A repeated packet: at once, from another port, by the bulk path, after thousands of packets, after a key update, after
// idleness.
func TestAttackReplays(t *testing.T) {
	p := newSealedPair(t, 1408, testSuite, Config{
		IdleAfter: time.Hour,
		KeyLimits: KeyLimits{Update: 1 << 20, Age: time.Hour, Most: 1 << 23, Forged: 1 << 36, Keep: 2 * time.Second},
	}).connect()
	var old [][]byte
	p.link[1].mangle = func(b []byte) bool {
		if len(old) < 3 {
			old = append(old, bytes.Clone(b))
		}
		return true
	}
	p.post(0, p.write(0, 0, 100))
	p.pass(time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	p.link[1].mangle = nil
	again := func(when string) {
		t.Helper()
		for _, b := range old {
			p.refuses(1, "a packet again "+when, b, wire.DropReplay, wire.DropGeneration)
			from := p.conn(1).identity.remote
			from.Port++
			before, drops := p.condition(1), p.eng[1].Stats().Drops
			p.deliverFrom(1, from, b, false)
			p.unchanged(1, "a packet again from another port "+when, before, drops, wire.DropReplay, wire.DropGeneration)
			before, drops = p.condition(1), p.eng[1].Stats().Drops
			p.deliverFrom(1, p.conn(1).identity.remote, b, true)
			p.unchanged(1, "a packet again by the bulk path "+when, before, drops, wire.DropPath)
		}
	}
	again("at once")
	for range 300 {
		p.post(0, p.write(0, 0, 1<<16))
		p.runUntilIdle()
		p.pass(time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
	}
	again("after thousands of packets")
	if err := p.conn(0).end.keys.Out.Update(p.now); err != nil {
		t.Fatal(err)
	}
	p.exchange(10, 5)
	again("after a key update")
	p.pass(3 * time.Second)
	again("when their key is gone")
}

// Attack 4. A packet of before idleness wakes no connection, whether it came before or not.
func TestAttackReplayOnIdleConnection(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	var came []byte
	p.link[1].mangle = func(b []byte) bool { came = bytes.Clone(b); return true }
	p.post(0, p.write(0, 0, 100))
	p.pass(time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	lost := p.catch(func() { p.conn(0).traffic.sendPing(); p.eng[0].flush() })[0]
	p.exchange(10, 1)
	p.pass(5 * time.Second)
	if p.conn(1).traffic != nil {
		t.Fatal("the connection is not idle")
	}
	forged := bytes.Clone(lost)
	forged[len(forged)-1] ^= 1
	binary.BigEndian.PutUint32(forged[4:], uint32(heard(p.conn(1)))+5)
	for what, b := range map[string][]byte{"a packet that came": came, "a packet that was lost": lost, "a forged packet": forged} {
		drops := p.eng[1].Stats().PacketsOut
		p.deliver(1, b)
		if p.conn(1).traffic != nil || p.eng[1].Stats().PacketsOut != drops || p.conn(1).end.keys.In.Ready() {
			t.Errorf("%s woke the connection", what)
		}
	}
	if s := p.eng[1].Stats(); s.Drops[wire.DropReplay] != 2 || s.Drops[wire.DropTag] != 1 {
		t.Errorf("%v", s.DropsByName())
	}
	p.exchange(10, 2)
}

// Attacks 5 and 6. A packet that was sealed for another receiver: reflected to its sender, or of another connection of the same peers.
func TestAttackPacketsOfOthers(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	packets := p.catch(func() { p.post(0, p.write(0, 0, 40)) })
	first := p.conn(1)
	for _, b := range packets {
		b = bytes.Clone(b)
		binary.BigEndian.PutUint64(b[8:], p.conn(0).identity.id)
		binary.BigEndian.PutUint32(b[4:], uint32(heard(p.conn(0)))+1)
		p.refuses(0, "a reflected packet", b, wire.DropTag)
	}
	for side := range 2 {
		p.qp[side] = p.eng[side].NewQP(QPConfig{ReceiveCQ: p.cq[side], InitiatorCQ: p.cq[side], ReceiveDepth: 16, InitiatorDepth: 16, MaxReceiveSGE: 4, MaxInitiatorSGE: 4})
	}
	p.connect()
	if p.conn(1) == first {
		t.Fatal("there is one connection")
	}
	for _, b := range packets {
		b = bytes.Clone(b)
		binary.BigEndian.PutUint64(b[8:], p.conn(1).identity.id)
		binary.BigEndian.PutUint32(b[4:], uint32(heard(p.conn(1)))+1)
		p.refuses(1, "a packet of another connection", b, wire.DropTag)
	}
}

// Attack 8. Generations that are not used: after the next one, the largest, zero, and the one before after two seconds.
func TestAttackOtherGenerations(t *testing.T) {
	p := newSealedPair(t, 1408, testSuite, Config{KeyLimits: few, IdleAfter: time.Hour}).connect()
	late := p.catch(func() { p.conn(0).traffic.sendPing(); p.eng[0].flush() })[0]
	if err := p.conn(0).end.keys.Out.Update(p.now); err != nil {
		t.Fatal(err)
	}
	p.exchange(10, 1)
	if g := p.conn(1).end.keys.In.Generation(); g != 2 {
		t.Fatalf("generation %d", g)
	}
	p.pass(few.Keep)
	for _, generation := range []uint32{0, 1, 4, 1 << 31, 1<<32 - 1} {
		b := bytes.Clone(late)
		wire.PutGeneration(b, generation)
		p.refuses(1, fmt.Sprint("generation ", generation), b, wire.DropGeneration)
	}
	b := bytes.Clone(late)
	wire.PutGeneration(b, 3)
	binary.BigEndian.PutUint32(b[4:], uint32(heard(p.conn(1)))+1)
	p.refuses(1, "the next generation, forged", b, wire.DropTag)
	p.exchange(10, 2)
}

// Attack 9. A peer that changes its key with every packet loses its connection.
func TestAttackFloodOfKeyUpdates(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	for i := 0; i < 20 && p.conn(1) != nil && p.conn(1).phase == phaseOpen; i++ {
		if err := p.conn(0).end.keys.Out.Update(p.now); err != nil {
			t.Fatal(err)
		}
		p.post(0, p.write(0, 0, 10))
		p.pass(5 * time.Millisecond)
	}
	if p.conn(1) != nil && p.conn(1).phase == phaseOpen {
		t.Error("the connection goes on")
	}
}

// Attack 11. A key seals no more than its limit: a peer that never shows the present key makes the connection end.
func TestAttackPeerThatNeverShowsTheKey(t *testing.T) {
	limits := few
	limits.Update = 50
	p := sealedPair(t, 1408, limits).connect()
	if err := p.conn(0).end.keys.Out.Update(p.now); err != nil {
		t.Fatal(err)
	}
	k := &p.conn(0).end.keys.Out
	sealed := 0
	p.link[1].mangle = func([]byte) bool { sealed++; return false }
	for i := 0; i < 400 && p.conn(0) != nil && p.conn(0).phase == phaseOpen; i++ {
		p.conn(0).traffic.sendPing()
		p.post(0, p.write(0, 0, 10))
		p.eng[0].flush()
		p.now += 1000
		p.eng[0].Run(p.now)
		p.results(0)
	}
	if c := p.conn(0); c != nil && c.phase == phaseOpen && !c.traffic.served.Terminated() {
		t.Errorf("the connection goes on after %d packets", sealed)
	}
	if k.Spent(&limits) {
		t.Error("the key is spent")
	}
	p.pass(time.Minute)
	if sealed > int(limits.Most) {
		t.Errorf("%d packets of one key, at most %d are allowed", sealed, limits.Most)
	}
}

// Attack 11. Forgers have a bounded number of attempts. Then the connection ends.
func TestAttackForgersRunOut(t *testing.T) {
	limits := few
	limits.Forged = 100
	p := sealedPair(t, 1408, limits).connect()
	f := p.forge(1)
	f.fields.Number++
	f.fields.Flags |= wire.FlagSecure
	f.spoil = func(b []byte) []byte { wire.PutGeneration(b, 1); return append(b, make([]byte, wire.TagLen)...) }
	for i := range limits.Forged {
		if p.conn(1) == nil || p.conn(1).phase != phaseOpen || p.conn(1).traffic.served.Terminated() {
			t.Fatalf("the connection ended after %d forged packets", i)
		}
		p.deliver(1, f.bytes())
	}
	p.pass(time.Minute)
	if p.conn(1) != nil || p.conn(0) != nil {
		t.Error("the connection goes on")
	}
}

// Attack 12. An RST without the token ends no encrypted connection, although it quotes the packet number of a PING that asked for it.
func TestAttackReset(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	c := p.conn(1)
	reset := func(what string, m wire.Reset) {
		t.Helper()
		f := p.forge(1)
		f.control(wire.CtlRST, m.Append(nil))
		f.fields.ConnID, f.fields.Number = 0, 0
		p.refuses(1, what, f.bytes(), wire.DropRSTToken)
	}
	reset("a guessed token", wire.Reset{ConnID: c.identity.peerID, Token: [16]byte{1}})
	p.link[0].mangle = func([]byte) bool { return false } // the peer does not hear of it
	if d := c.contested(); d != wire.DropNone {
		t.Fatal(d)
	}
	p.pass(time.Millisecond)
	if p.eng[1].Stats().ProofPings == 0 {
		t.Fatal("no PING was sent")
	}
	for number := c.traffic.sent.packets.First(); number < c.traffic.sent.packets.Next(); number++ {
		reset("the number of a PING", wire.Reset{ConnID: c.identity.peerID, Number: uint32(number)})
	}
}

// Attack 12. A sealed packet for an unknown id gets an RST to the port that it names, which is no larger than the packet.
func TestAttackResetsForSealedPackets(t *testing.T) {
	w := newWorld(newLanes(), 64, Config{})
	w.listen()
	for size, want := range map[int]int{wire.BaseHeaderLen + wire.TagLen: 0, 75: 0, 76: 1, 1200: 1} {
		f := &forged{from: wire.Endpoint{IP: address(uint32(size)), Port: 50000}}
		f.bare()
		f.fields.ConnID, f.fields.Flags, f.fields.Message = 0xabcdef<<24|uint64(size), wire.FlagSecure, 4711
		f.body = make([]byte, size-wire.BaseHeaderLen)
		answers := w.inject(f)
		if len(answers) != want {
			t.Fatalf("a sealed packet of %d bytes gets %d answers, want %d", size, len(answers), want)
		}
		for _, b := range answers {
			if opcode(b) != wire.CtlRST || len(b) > size {
				t.Errorf("a sealed packet of %d bytes gets %v of %d bytes", size, opcode(b), len(b))
			}
		}
	}
}
