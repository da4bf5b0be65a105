package ndnet

import (
	"bytes"
	"testing"
)

// A message that is taken says the same when it is written again.
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

// A greeting that is taken names receives enough, and a ring of a possible size.
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
