package ndnet

import (
	"bytes"
	"testing"
)

// A header that is taken says the same when it is written again.
func FuzzParseHeader(f *testing.F) {
	for _, flags := range []uint8{0, flagEnd, flagsAll, flagsAll + 1} {
		b := make([]byte, headerLen)
		putHeader(b, flags, 7)
		f.Add(b)
	}
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		flags, posted, err := parseHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, headerLen)
		putHeader(again, flags, posted)
		if !bytes.Equal(again, b[:headerLen]) {
			t.Errorf("%x was read as flags %d, %d receives", b[:headerLen], flags, posted)
		}
	})
}

// A greeting that is taken leaves room for data in every message, and a receive to spare for a message without.
func FuzzParseGreeting(f *testing.F) {
	f.Add(greeting{receives: 64, maxMessage: 1 << 16}.encode())
	f.Add(greeting{}.encode())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseGreeting(b)
		if err != nil {
			return
		}
		if g.receives < minBuffers || g.maxMessage <= headerLen {
			t.Errorf("%x was read as %+v", b, g)
		}
		if !bytes.Equal(g.encode()[:greetingLen-4], b[:greetingLen-4]) {
			t.Errorf("%x was read as %+v", b, g)
		}
	})
}
