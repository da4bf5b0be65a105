package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/wire"
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

// flightOf returns the flight record of an engine as text.
func flightOf(t *testing.T, e *Engine) string {
	var text strings.Builder
	r := e.flight.Record(e.now)
	if _, err := r.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// The flight record has the end of the TLS handshake, the key generations of both directions, and one forged packet of a second.
func TestFlightRecordOfAnEncryptedConnection(t *testing.T) {
	p := sealedPair(t, 1408, KeyLimits{Update: 20, Age: time.Hour, Most: 1 << 23, Forged: 1 << 36, Keep: 2 * time.Second}).connect()
	p.exchange(30_000, 1)
	for side, e := range p.eng {
		got := flightOf(t, e)
		for _, want := range []string{"TLS done, AES-128-GCM", "keys sent, generation 2", "keys received, generation 2"} {
			if strings.Count(got, want) != 1 {
				t.Errorf("side %d: %q is not there once in\n%s", side, want, got)
			}
		}
		k := p.conn(side).end.keys
		if n := strings.Count(got, "keys "); n != int(k.Out.Generation()+k.In.Generation())-2 {
			t.Errorf("side %d: %d key updates in\n%s", side, n, got)
		}
	}
	before := len(p.eng[1].flight.Record(p.eng[1].now).Events)
	f := p.forge(1)
	f.fields.Number++
	f.fields.Flags |= wire.FlagSecure
	for i := range 100 {
		f.spoil = func(b []byte) []byte {
			wire.PutGeneration(b, p.conn(1).end.keys.In.Generation()+uint32(i%2)*7)
			return append(b, make([]byte, wire.TagLen)...)
		}
		p.deliver(1, f.bytes())
	}
	if n := len(p.eng[1].flight.Record(p.eng[1].now).Events); n != before+1 {
		t.Errorf("100 forged packets are %d events", n-before)
	}
	if s := p.eng[1].Stats(); s.Drops[wire.DropTag] != 50 || s.Drops[wire.DropGeneration] != 50 {
		t.Errorf("they were dropped for %v", s.DropsByName())
	}
}

// The flight record of each side has the alert of a refused TLS handshake, and which side sent it. A client that the server refuses was
// done before.
func TestFlightRecordOfARefusedHandshake(t *testing.T) {
	refuses := usual
	refuses.Refuse = 42
	for by, want := range [2][2]string{
		{"TLS failed, alert 42 to the peer", "TLS failed, alert 42 of the peer"},
		{"TLS failed, alert 42 of the peer", "TLS failed, alert 42 to the peer"},
	} {
		plans := [2]shakertest.Plan{usual, usual}
		plans[by] = refuses
		m := newShakeMeeting(t, plans[0], plans[1])
		m.get().connect().pass(9 * time.Second)
		for side := range 2 {
			got := flightOf(t, m.eng[side])
			if strings.Count(got, "TLS failed") != 1 || !strings.Contains(got, want[side]) || strings.Contains(got, "TLS done") != (by == 1 && side == 0) {
				t.Errorf("side %d, refused by %d: no %q in\n%s", side, by, want[side], got)
			}
		}
	}
}

// TestCloseLosesNothing: a peer that closes its connector ends the connection, which counts as no loss and is not recorded as one.
func TestCloseLosesNothing(t *testing.T) {
	records := 0
	p := newTunedPair(t, 1408, 1, Config{OnLost: func(FlightRecord) { records++ }}).connect()
	p.ctr[1].Close()
	p.pass(time.Second)
	if s := p.eng[0].Stats(); p.ctr[0].State() != CtrLost || s.Lost != 0 || records != 0 {
		t.Errorf("state %v, %d lost, %d records", p.ctr[0].State(), s.Lost, records)
	}
}
