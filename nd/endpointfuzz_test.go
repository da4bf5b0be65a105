package nd

import (
	"bytes"
	"testing"
)

// The introduction of a peer is accepted as a whole or not at all.
func FuzzParseIntro(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(make([]byte, introLen-1))
	f.Add(appendIntro(nil, RemoteMemory{Address: 1 << 40, Token: 7, Length: 1 << 20}, []byte("hello")))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, greeting, ok := parseIntro(data)
		if ok != (len(data) >= introLen) {
			t.Fatalf("%d bytes: taken %t", len(data), ok)
		}
		if ok && !bytes.Equal(appendIntro(nil, m, greeting), data) {
			t.Errorf("%x was read as %+v, %q", data, m, greeting)
		}
	})
}
