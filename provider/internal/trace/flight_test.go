package trace

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

const start = clock.Time(time.Hour)

// TestFlightRecorderIsBounded: a flood of equal drops is one event, further events displace the oldest, and the size of a record is
// limited.
func TestFlightRecorderIsBounded(t *testing.T) {
	f := NewRecorder(nil)
	if size := reflect.TypeFor[FlightEvent]().Size(); size > 40 {
		t.Errorf("an event has %d bytes", size)
	}
	if n := testing.AllocsPerRun(1000, func() { f.Note(start, FlightDrop, 7, 1, 0) }); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
	r := f.Record(start)
	if len(r.Events) != 1 || r.Events[0].Count != 1001 || r.Events[0].Kind != FlightDrop {
		t.Errorf("a flood became %+v", r.Events)
	}
	for i := range uint32(2000) {
		f.Note(start, FlightTimeout, 7, i, 0)
	}
	if r = f.Record(start); len(r.Events) != flightEvents || r.Events[0].From != 2000-flightEvents || r.Events[flightEvents-1].From != 1999 {
		t.Errorf("%d events from %+v", len(r.Events), r.Events[0])
	}
	records := 0
	lose := func(now clock.Time, n int) {
		for range n {
			if r, ok := f.Lost(now, 7, outcome.IOTimeout, true); ok {
				records++
				if last := r.Events[len(r.Events)-1]; r.ConnID != 7 || r.Outcome != outcome.IOTimeout || last.Kind != FlightLost {
					t.Errorf("record %+v, last %+v", r.ConnID, last)
				}
			}
		}
	}
	lose(start, 100)
	if r = f.Record(start); records != MaxFlightRecords || r.Suppressed != 100-MaxFlightRecords {
		t.Errorf("%d records, %d suppressed", records, r.Suppressed)
	}
	if lose(start.Add(time.Second), 1); records != MaxFlightRecords+1 {
		t.Error("no record a second later")
	}
	if _, ok := f.Lost(start.Add(time.Minute), 7, outcome.Canceled, false); ok || f.Record(start).Suppressed != 100-MaxFlightRecords {
		t.Error("an unwanted record was made, or counted")
	}
}

// Each kind of event is printed in words, in order of time, with a count of repetitions.
func TestFlightRecordForPeople(t *testing.T) {
	f := NewRecorder([]string{"free", "open"})
	at := start
	note := func(kind FlightKind, from, to uint32) {
		at = at.Add(time.Millisecond)
		f.Note(at, kind, 0xabc, from, to)
	}
	note(FlightState, 0, 1)
	note(FlightDrop, uint32(wire.DropCRC), 0)
	note(FlightLoss, 0, 1)
	note(FlightProbe, 0, 0)
	note(FlightTimeout, 6, 0)
	note(FlightTimeout, 6, 0)
	note(FlightSpurious, 0, 0)
	note(FlightMove, 2, 3)
	note(FlightPath, 9000, 1200)
	note(FlightPause, 0, 0)
	note(FlightInterface, uint32(InterfaceMTU), 1500)
	note(FlightECN, uint32(recovery.ECNAll), 0)
	note(FlightTLS, uint32(TLSDone), 0x1303)
	note(FlightTLS, uint32(TLSFailed), 42)
	note(FlightTLS, uint32(TLSRefused), 48)
	note(FlightKeys, 0, 2)
	note(FlightKeys, 1, 3)
	r, ok := f.Lost(at, 0xabc, outcome.IOTimeout, true)
	var text strings.Builder
	if n, err := r.WriteTo(&text); !ok || err != nil || n != int64(text.Len()) {
		t.Fatal(n, err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	for i, want := range []string{
		"connection abc lost (I/O timeout): the engine's last 17 events", "state free -> open", "drop " + wire.DropCRC.String(), "loss in response space",
		"tail probe", "time-out 6, 2 times in 1ms", "time-out undone", "move 2 -> 3", "path 9000 -> 1200", "pause", "interface: MTU 1500", "ECN off, the path marks everything",
		"TLS done, ChaCha20-Poly1305", "TLS failed, alert 42 to the peer", "TLS failed, alert 48 of the peer", "keys sent, generation 2", "keys received, generation 3",
		"lost: I/O timeout",
	} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], want) {
			t.Fatalf("line %d is not %q in\n%s", i, want, text.String())
		}
	}
	if !strings.Contains(lines[1], "-16ms") || !strings.Contains(lines[1], "  abc  ") {
		t.Errorf("no time before the end, or no connection, in %q", lines[1])
	}
}

// A flood of forged packets that vary their connection and reason leaves a second's events in place, but for one. Its repetitions are
// counted, and other drops are events as ever.
func TestForgedPacketsDisplaceNothing(t *testing.T) {
	f := NewRecorder([]string{"free", "open"})
	f.Note(start, FlightState, 7, 0, 1)
	flood := func(at clock.Time) {
		for i := range uint64(3 * flightEvents) {
			f.Drop(at, 100+i%5, wire.DropTag+wire.DropReason(i%6))
		}
	}
	f.Drop(start, 7, wire.DropTag)
	f.Drop(start, 7, wire.DropTag)
	f.Drop(start, 7, wire.DropCRC)
	flood(start)
	flood(start.Add(999 * time.Millisecond))
	flood(start.Add(time.Second))
	r := f.Record(start)
	if len(r.Events) != 4 || r.Events[0].Kind != FlightState || r.Events[1].Count != 2 || r.Events[2].From != uint32(wire.DropCRC) || r.Events[3].At != start.Add(time.Second) {
		t.Errorf("%+v", r.Events)
	}
	for i := range uint64(5) {
		f.Drop(start, i, wire.DropUnknownConn)
	}
	if r = f.Record(start); len(r.Events) != 9 {
		t.Errorf("%d events", len(r.Events))
	}
}

// TestInterfaceChangesAreRecorded: the flight recorder has the changes of the interface, each in its own words.
func TestInterfaceChangesAreRecorded(t *testing.T) {
	f := NewRecorder(nil)
	for c := range numInterfaceChanges {
		f.Note(start, FlightInterface, 0, uint32(c), 10<<24|99<<16|2)
	}
	var text strings.Builder
	r := f.Record(start)
	if _, err := r.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")[1:]
	for c := range numInterfaceChanges {
		if !strings.Contains(lines[c], "interface: "+c.String()) || strings.HasPrefix(c.String(), "change") {
			t.Errorf("change %d is %q", c, lines[c])
		}
	}
	for c, want := range map[InterfaceChange]string{
		InterfaceMTU: "MTU 174260226", InterfaceNeighbour: "neighbour has another address …10.99.0.2", InterfaceUp: "interface: up",
	} {
		if !strings.HasSuffix(lines[c], want) {
			t.Errorf("%q, want %q", lines[c], want)
		}
	}
	if got := numInterfaceChanges.String(); got != "change 13" {
		t.Errorf("an unknown change is %q", got)
	}
}
