package bench

import (
	"encoding/json"
	"testing"
)

// FuzzSetup: a server obeys a peer's setup message only within bounds, whatever the message says.
func FuzzSetup(f *testing.F) {
	for _, s := range []Spec{
		{Test: WriteLat},
		{Test: ReadBW, Size: 1},
		{Test: SendBW, Size: MaxSize},
		{Test: WriteRate, ListSize: maxSpecDepth, Depth: maxSpecDepth},
		{Test: WriteRate, Size: MaxSize, ListSize: maxSpecDepth - 1, Depth: maxSpecDepth},
		{Test: "teleport", Size: -1, Depth: 1 << 62, ListSize: 1 << 62},
	} {
		text, err := json.Marshal(controlMessage{Setup: &setupMessage{Spec: s, ID: "data"}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"bye":true}`))
	f.Add([]byte(`{"setup":null,"done":{"ops":-1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var m controlMessage
		if json.Unmarshal(text, &m) != nil || m.Setup == nil {
			return
		}
		s := m.Setup.Spec.WithDefaults()
		if s.Validate() != nil {
			return
		}
		if n := s.memory(); n < 2*int64(minSlots) || n > maxSpecMemory {
			t.Errorf("%+v takes %d bytes", s, n)
		}
		receives, initiator := s.receives()+flowReceives, max(s.Depth, pingPongDepth)+flowReceives
		if results := receives + initiator + 2*controlDepth; s.receives() < 1 || results > sessionCQDepth {
			t.Errorf("%+v may have %d results at once, the queue holds %d", s, results, sessionCQDepth)
		}
		if b := s.budget(); b <= 0 {
			t.Errorf("%+v may take %v", s, b)
		}
	})
}
