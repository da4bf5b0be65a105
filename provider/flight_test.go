package provider

import (
	"strings"
	"testing"
	"time"
)

// TestFlightRecordOfALostConnection: if a peer falls silent, the flight record has the events that led to the loss of the
// connection, newest last.
func TestFlightRecordOfALostConnection(t *testing.T) {
	var records []FlightRecord
	p := newTunedPair(t, 1408, 1, Config{OnLost: func(r FlightRecord) { records = append(records, r) }}).connect()
	id := p.conn(0).identity.id
	p.link[0].mangle = func([]byte) bool { return false }
	p.link[1].mangle = p.link[0].mangle
	p.post(0, p.write(0, 0, 100))
	p.pass(20 * time.Second)
	var mine *FlightRecord
	for i := range records {
		if records[i].ConnID == id {
			mine = &records[i]
		}
	}
	if mine == nil || mine.Outcome != OutcomeIOTimeout {
		t.Fatalf("records %+v", records)
	}
	last := len(mine.Events) - 1
	if v := mine.Events[last]; v.Kind != FlightLost || v.ConnID != id || v.At != mine.At {
		t.Errorf("the newest event is %+v", v)
	}
	var text strings.Builder
	if _, err := mine.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{"(I/O timeout)", "state req_sent -> accepted", "-> open", "tail probe", "time-out 1", "time-out 6", "lost: I/O timeout"} {
		n := strings.Index(text.String()[at:], want)
		if n < 0 {
			t.Fatalf("no %q, or not in its place, in\n%s", want, text.String())
		}
		at += n
	}
}
