package datapath

import (
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		want     Rung
		driver   string
		rung     Rung
		fallback bool
		reason   string
	}{
		{RungAuto, "veth", RungGeneric, false, "veth"},
		{RungAuto, "ice", RungNative, true, "no measurement"},
		{RungAuto, "", RungNative, true, "no measurement"},
		{RungNative, "veth", RungNative, false, "asked for"},
		{RungGeneric, "ice", RungGeneric, false, "asked for"},
	} {
		got, fallback := choose(c.want, c.driver)
		if got.rung != c.rung || fallback != c.fallback || !strings.Contains(got.reason, c.reason) {
			t.Errorf("choose(%v, %q) = %v (%s), %t", c.want, c.driver, got.rung, got.reason, fallback)
		}
	}
}

func TestRungNames(t *testing.T) {
	for _, r := range []Rung{RungAuto, RungGeneric, RungNative, RungUDP} {
		if got, err := ParseRung(r.String()); got != r || err != nil {
			t.Errorf("ParseRung(%q) = %v, %v", r, got, err)
		}
	}
	for _, s := range []string{"", "Native", "rung 9", Rung(9).String()} {
		if _, err := ParseRung(s); err == nil || !strings.Contains(err.Error(), "use auto, generic, native or udp") {
			t.Errorf("ParseRung(%q): %v", s, err)
		}
	}
}
