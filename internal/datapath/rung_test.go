package datapath

import (
	"strings"
	"testing"
)

func TestRungNames(t *testing.T) {
	for _, r := range []Rung{RungAuto, RungGeneric, RungNative, RungUDP, RungRing, RungTCX} {
		if got, err := ParseRung(r.String()); got != r || err != nil {
			t.Errorf("ParseRung(%q) = %v, %v", r, got, err)
		}
	}
	for _, s := range []string{"", "Native", "rung 9", Rung(9).String()} {
		if _, err := ParseRung(s); err == nil || !strings.Contains(err.Error(), "use auto, generic, native, udp, ring or tcx") {
			t.Errorf("ParseRung(%q): %v", s, err)
		}
	}
}
