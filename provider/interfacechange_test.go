package provider

import (
	"strings"
	"testing"
)

// TestInterfaceChangesAreRecorded: the flight recorder tells what happened beneath, each in its own words.
func TestInterfaceChangesAreRecorded(t *testing.T) {
	e := newPair(t, 1408).eng[0]
	for c := range numInterfaceChanges {
		e.InterfaceChanged(c, 10<<24|99<<16|2)
	}
	var text strings.Builder
	r := e.FlightRecord()
	if _, err := r.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	lines = lines[len(lines)-int(numInterfaceChanges):]
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
