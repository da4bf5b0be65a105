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

// sealedWith returns the packet of f as somebody with a secret of a generation seals it, or the key that follows from it.
func (f *forged) sealedWith(t *testing.T, secret secure.Secret, generation, later uint32, number uint64) []byte {
	t.Helper()
	var k secure.Sealer
	if err := k.Install(generation, &secret, 0); err != nil {
		t.Fatal(err)
	}
	for range later {
		if err := k.Update(0); err != nil {
			t.Fatal(err)
		}
	}
	f.fields.Number, f.fields.Flags = number, f.fields.Flags|wire.FlagSecure
	b := f.bytes()
	wire.PutGeneration(b, k.Generation())
	header := wire.BaseHeader(b[:wire.BaseHeaderLen])
	return k.Seal(bytes.Clone(header), b[wire.BaseHeaderLen:], header, number, f.fields.Message)
}

// Attack 26. Somebody with all keys of one connection opens and forges nothing of another connection between the same hosts.
func TestAttackKeysOfAnotherConnection(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	stolen := [2]*conn{p.conn(0), p.conn(1)}
	for side := range 2 {
		p.qp[side] = p.eng[side].NewQP(QPConfig{ReceiveCQ: p.cq[side], InitiatorCQ: p.cq[side], ReceiveDepth: 16, InitiatorDepth: 16, MaxReceiveSGE: 4, MaxInitiatorSGE: 4})
	}
	p.connect()
	if p.conn(1) == stolen[1] {
		t.Fatal("there is one connection")
	}
	number := heard(p.conn(1)) + 1
	for from, c := range stolen {
		for later := range uint32(2) {
			b := p.forge(1).sealedWith(t, *c.end.keys.In.Secret(), 1, later, number)
			p.refuses(1, fmt.Sprintf("a packet with the stolen key of side %d, generation %d", from, 1+later), b, wire.DropTag)
		}
		var k secure.Opener
		if err := k.Install(1, c.end.keys.In.Secret(), new(secure.Window), &few, 0); err != nil {
			t.Fatal(err)
		}
		seen := p.catch(func() { p.conn(0).traffic.sendPing(); p.eng[0].flush() })[0]
		header := wire.BaseHeader(seen[:wire.BaseHeaderLen])
		if _, d := k.Open(nil, seen[wire.BaseHeaderLen:], header, uint64(header.Number()), 0, &few, 0); d != wire.DropTag {
			t.Errorf("the stolen key of side %d opens a packet: %v", from, d)
		}
	}
	p.exchange(10, 1)
	number = heard(p.conn(1)) + 1
	p.deliver(1, p.forge(1).sealedWith(t, *p.conn(1).end.keys.In.Secret(), 1, 0, number))
	if heard(p.conn(1)) != number {
		t.Error("the key of this connection does not forge its packets: the test shows nothing")
	}
}

// Attack 28. The contents of a packet with a wrong tag reach no memory of the application, not even while the packet is being opened: the
// race detector sees each write.
func TestAttackForgedContentsReachNoMemory(t *testing.T) {
	for _, maxPacket := range []int{1408, 8972} {
		p := sealedPair(t, maxPacket, few).connect()
		const n = 20_000
		p.fill(0, 0, n, 0xa5)
		p.fill(1, 0, n, 0x5a)
		packets := p.catch(func() { p.post(0, p.write(0, 0, n)) })
		memory := p.reg[1].Bytes()
		before := bytes.Clone(memory)
		stop, changed := make(chan struct{}), make(chan bool)
		go func() {
			differs := false
			for {
				differs = differs || !bytes.Equal(memory, before)
				select {
				case <-stop:
					changed <- differs
					return
				default:
				}
			}
		}()
		for i, b := range packets {
			for what, at := range map[string]int{"in its tag": len(b) - 1, "in its contents": wire.BaseHeaderLen + 20} {
				b = bytes.Clone(b)
				b[at] ^= 1
				drops := p.eng[1].Stats().Drops[wire.DropTag]
				p.deliver(1, b)
				if p.eng[1].Stats().Drops[wire.DropTag] != drops+1 {
					t.Errorf("packet %d, changed %s, was not dropped", i, what)
				}
			}
		}
		close(stop)
		if <-changed || !bytes.Equal(memory, before) {
			t.Errorf("packets of %d: forged contents are in memory", maxPacket)
		}
		for _, b := range packets {
			p.deliver(1, b)
		}
		if first := binary.BigEndian.Uint32(memory); first != 0xa5a5a5a5 {
			t.Errorf("the authentic packets wrote %#x: the test shows nothing", first)
		}
	}
}

// A forged packet for an idle connection makes the cipher of its key, and nothing else: the cost of a flood of them is bounded by its packets.
func TestAttackForgedPacketsForIdleConnection(t *testing.T) {
	p := sealedPair(t, 1408, few).connect()
	b := p.catch(func() { p.conn(0).traffic.sendPing(); p.eng[0].flush() })[0]
	p.pass(5 * time.Second)
	c := p.conn(1)
	binary.BigEndian.PutUint32(b[4:], uint32(heard(c))+5)
	b[len(b)-1] ^= 1
	packet := &TxPacket{N: 1, Len: len(b)}
	packet.Frags[0].Data = b
	from, to := c.identity.remote, wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}
	before := p.eng[1].Stats()
	objects := testing.AllocsPerRun(1000, func() {
		p.link[1].deliver(packet, from, to)
		p.eng[1].Run(p.now)
	})
	if objects > ciphersOfKey && !raceEnabled {
		t.Errorf("a forged packet allocates %v objects, at most %d are the cipher's", objects, ciphersOfKey)
	}
	s := p.eng[1].Stats()
	if s.Drops[wire.DropTag] < 1000 || s.PacketsOut != before.PacketsOut || c.traffic != nil || c.end.keys.In.Ready() {
		t.Errorf("%v, %d packets out, awake %v", s.DropsByName(), s.PacketsOut-before.PacketsOut, c.traffic != nil)
	}
}
