package plan

import (
	"strings"
	"testing"
)

func TestDatapathNames(t *testing.T) {
	for _, r := range []Datapath{Auto, Generic, Native, UDP, Ring, TCX} {
		if got, err := Parse(r.String()); got != r || err != nil {
			t.Errorf("Parse(%q) = %v, %v", r, got, err)
		}
	}
	for _, s := range []string{"", "Native", "datapath 9", Datapath(9).String()} {
		if _, err := Parse(s); err == nil || !strings.Contains(err.Error(), "use auto, generic, native, udp, ring or tcx") {
			t.Errorf("Parse(%q): %v", s, err)
		}
	}
}
