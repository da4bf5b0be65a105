package ndnet

import (
	"bytes"
	"testing"
)

// A message that is accepted is the same after it is encoded again.
func FuzzParseMessage(f *testing.F) {
	f.Add((&message{flags: flagEnd, receives: 7, written: 1 << 31, read: 9}).appendTo(nil))
	f.Add((&message{flags: flagsAll, offer: grant{1 << 40, 3, minRing}}).appendTo(nil))
	f.Add(append((&message{written: 4}).appendTo(nil), "data"...))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b)
		if err != nil {
			return
		}
		if again := append(m.appendTo(nil), m.data...); !bytes.Equal(again, b) {
			t.Errorf("%x was read as %+v, which is %x", b, m, again)
		}
	})
}

// A greeting that is accepted has enough receives, and a ring of a valid size.
func FuzzParseGreeting(f *testing.F) {
	f.Add(greeting{receives: minReceives, ring: grant{size: minRing}}.encode())
	f.Add(greeting{}.encode())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseGreeting(b)
		if err != nil {
			return
		}
		if g.receives < minReceives || g.receives > maxReceives || !g.ring.valid() {
			t.Errorf("%x was read as %+v", b, g)
		}
		if !bytes.Equal(g.encode(), b[:greetingLen]) {
			t.Errorf("%x was read as %+v", b, g)
		}
	})
}

// FuzzPeer lets a peer send arbitrary messages, each preceded by a byte with its length. After each accepted message, every counter
// is within its ring.
func FuzzPeer(f *testing.F) {
	say := func(all ...message) (b []byte) {
		for _, m := range all {
			text := append(m.appendTo(nil), m.data...)
			b = append(append(b, byte(len(text))), text...)
		}
		return b
	}
	f.Add(say(message{receives: depth, flags: flagEnd}, message{receives: depth, written: 1}))
	f.Add(say(message{receives: depth, written: 4, data: []byte("data")}, message{receives: depth, written: minRing, read: 1000}))
	f.Add(say(message{receives: depth, flags: flagSwitched | flagBlocked, written: 600}, message{receives: depth, written: 700, flags: flagGone}))
	f.Add(say(message{receives: depth, flags: flagRing, offer: grant{1 << 40, 3, minRing}}, message{receives: depth, flags: flagRing, offer: grant{1, 2, minRing}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &Conn{network: &Network{cfg: Config{MaxBuffer: minMaxBuffer}}, credits: newCredits(minReceives)}
		c.in.now, c.in.next = make([]byte, minRing), make([]byte, 2*minRing)
		c.out.ring, c.out.written = grant{size: minRing}, 500
		c.send.requests = depth // this side offers no ring
		for len(b) > 0 {
			n := min(int(b[0]), len(b)-1, messageLen)
			if c.received(b[1:1+n]) != nil {
				return
			}
			b = b[1+n:]
			if c.in.unread() < 0 || c.in.written-max(c.in.read, c.in.base) > uint64(len(c.in.now)) {
				t.Fatalf("%d to %d are unread, in a ring of %d from %d", c.in.read, c.in.written, len(c.in.now), c.in.base)
			}
			if c.out.read > c.out.written || c.credits.limit-c.credits.sent > maxReceives {
				t.Fatalf("read up to %d of %d, %+v", c.out.read, c.out.written, c.credits)
			}
			for c.in.unread() > 0 && n%2 == 0 { // reads all that can be read
				c.in.consume(len(c.in.peek()))
			}
		}
	})
}
