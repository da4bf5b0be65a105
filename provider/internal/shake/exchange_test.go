package shake

import (
	"bytes"
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// talker is one end of an exchange in a test.
type talker struct {
	Exchange
	active bool
	wrote  [NumLevels][]byte
	got    [NumLevels][]byte
}

// say returns the next packet of a level as the peer parses it: the parts of the ClientHello travel in REQs.
func (k *talker) say(level int) any {
	if k.active && level == Initial {
		h := k.Hello()
		k.Sent(level, len(h.Bytes))
		h.Bytes = bytes.Clone(h.Bytes)
		return &h
	}
	m := new(wire.Shake)
	k.Fill(m, level)
	k.Sent(level, len(m.Bytes))
	m.Bytes = bytes.Clone(m.Bytes)
	return m
}

// hear takes a packet, and what it completes.
func (k *talker) hear(packet any) (d wire.DropReason) {
	switch m := packet.(type) {
	case *wire.HelloFragment:
		_, d = k.TakeHello(m)
	case *wire.Shake:
		_, d = k.Take(m, m.Level == wire.ShakeHandshake)
	}
	k.Give(func(level wire.ShakeLevel, b []byte) bool {
		i := Initial
		if level == wire.ShakeHandshake {
			i = Handshake
		}
		k.got[i] = append(k.got[i], b...)
		return true
	})
	return d
}

// write appends bytes to what the end sends.
func (k *talker) write(t *testing.T, initial, handshake int) {
	t.Helper()
	if !k.Write(text(initial), text(handshake), MaxUnproven) {
		t.Fatalf("%d and %d bytes are too many", initial, handshake)
	}
	k.wrote[Initial], k.wrote[Handshake] = append(k.wrote[Initial], text(initial)...), append(k.wrote[Handshake], text(handshake)...)
}

// talkers returns both ends of a handshake with flights of several packets.
func talkers(t *testing.T) [2]*talker {
	both := [2]*talker{{active: true}, {}}
	both[0].write(t, 1600, 3000)
	both[1].write(t, 1200, 20000)
	return both
}

// finishRounds is how often everything leaves again until an exchange has finished on a network that delivers. The longest flight is two
// bursts, and an end may hear in the first round only what arrived before.
const finishRounds = 4

// whole reports whether an end has received all that its peer wrote.
func (k *talker) whole(peer *talker) bool {
	return bytes.Equal(k.got[Initial], peer.wrote[Initial]) && bytes.Equal(k.got[Handshake], peer.wrote[Handshake])
}

// finish lets every packet arrive, and reports whether both ends then have everything.
func finish(both [2]*talker) bool {
	for range finishRounds {
		for i, k := range both {
			k.Again()
			for level := range NumLevels {
				for first := true; first || k.Unsent(level); first = false {
					both[1-i].hear(k.say(level))
				}
			}
		}
	}
	return both[0].whole(both[1]) && both[1].whole(both[0])
}

// Only bytes that the peer does not have leave again, and only so many before it says what arrived.
func TestOnlyMissingBytesLeaveAgain(t *testing.T) {
	both := talkers(t)
	passive, packets := both[1], 0
	for passive.Unsent(Handshake) {
		m := passive.say(Handshake).(*wire.Shake)
		if packets++; packets <= 2 {
			both[0].hear(m)
		}
	}
	if packets != 10 {
		t.Fatalf("%d packets left without an answer, want 10", packets)
	}
	passive.hear(both[0].say(Handshake))
	passive.Again()
	if m := passive.say(Handshake).(*wire.Shake); int(m.Offset) != 2*wire.MaxShakeBytes {
		t.Fatalf("the next packet begins at %d, want %d", m.Offset, 2*wire.MaxShakeBytes)
	}
	if !finish(both) {
		t.Fatal("the rest did not arrive")
	}
}

// A message that came by the other kind of packet, and one that acknowledges what was not sent, bring nothing.
func TestHostileShakesAreDropped(t *testing.T) {
	both := talkers(t)
	for name, m := range map[string]wire.Shake{
		"initial bytes acknowledged that were not written":   {Level: wire.ShakeInitial, HaveInitial: 1601},
		"handshake bytes acknowledged that were not written": {Level: wire.ShakeInitial, HaveHandshake: 3001},
		"too many initial bytes":                             {Level: wire.ShakeInitial, Total: MaxUnproven + 1, Bytes: text(10)},
		"too many bytes":                                     {Level: wire.ShakeHandshake, Total: MaxLevel + 1, Bytes: text(10)},
	} {
		if d := both[0].hear(&m); d != wire.DropShake {
			t.Errorf("%s: %v, want %v", name, d, wire.DropShake)
		}
	}
	for _, sealed := range []bool{false, true} {
		m := wire.Shake{Level: wire.ShakeHandshake, Total: 10, Bytes: text(10)}
		if sealed {
			m.Level = wire.ShakeInitial
		}
		if _, d := both[0].Take(&m, sealed); d != wire.DropShake {
			t.Errorf("%v in a packet of the other kind (sealed %v): %v", m.Level, sealed, d)
		}
	}
	if !finish(both) {
		t.Fatal("the handshake did not go on")
	}
}

// Bytes that were not taken are given again.
func TestGiveAgain(t *testing.T) {
	var x Exchange
	want := text(100)
	if _, d := x.TakeHello(&wire.HelloFragment{Total: 100, Bytes: want}); d != wire.DropNone {
		t.Fatal(d)
	}
	for i := range 3 {
		given := 0
		x.Give(func(_ wire.ShakeLevel, b []byte) bool {
			given = len(b)
			return i == 1
		})
		if want := []int{100, 100, 0}[i]; given != want {
			t.Fatalf("call %d gave %d bytes, want %d", i, given, want)
		}
	}
}

// FuzzExchange lets two ends talk over a network that the input draws: packets are lost, repeated, late, and forged. What an end gets is
// always the beginning of what its peer wrote, and all of it soon after the network delivers. A forged packet may break both.
func FuzzExchange(f *testing.F) {
	f.Add([]byte("\x00\x10\x01\x02\x20\x31\x42\x53"))
	f.Add(bytes.Repeat([]byte("\x04\x0c\x13\x27\x3b"), 30))
	f.Add([]byte("\x05\xff\xff\xff\xff\xff\xff\x00\x01\x02\x03"))
	f.Add(append(bytes.Repeat([]byte("\x1c\x1d\x1e\x1f"), 25), "\x18\x1d\x1f\x03\x07\x06\x12\x13"...)) // with a second flight
	f.Fuzz(func(t *testing.T, script []byte) {
		both := talkers(t)
		var late []func()
		forged := false
		for ; len(script) > 0; script = script[1:] {
			from, level := int(script[0]&1), int(script[0]>>1&1)
			k, peer := both[from], both[1-from]
			switch packet := k.say(level); script[0] >> 2 & 7 {
			case 0: // lost
			case 1:
				late = append(late, func() { peer.hear(packet) })
			case 2:
				peer.hear(packet)
				peer.hear(packet)
			case 3:
				k.Again()
			case 4:
				if len(late) > 0 {
					late[0]()
					late = late[1:]
				}
			case 5:
				var m wire.Shake
				if len(script) > 16 && wire.ParseShake(script[1:], &m) == wire.DropNone {
					forged = true
					peer.hear(&m)
				}
			case 6: // write the next flight if the peer has all bytes of the last one
				if peer.whole(k) && len(k.wrote[Handshake]) < MaxLevel*3/4 {
					k.write(t, 100, 2000)
				}
			default:
				peer.hear(packet)
			}
			for level := 0; level < NumLevels && !forged; level++ {
				if !bytes.HasPrefix(k.wrote[level], peer.got[level]) {
					t.Fatalf("level %d: what arrived is not what was sent", level)
				}
			}
		}
		for _, arrive := range late {
			arrive()
		}
		if !forged && !finish(both) {
			t.Fatal("the exchange does not finish on a network that delivers")
		}
	})
}
