package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// Facts alone decide whether an interface gets a bulk path, without a trial.
func TestBulkByFacts(t *testing.T) {
	segments, none := []string{genetlink.SegmentsUDP}, []string(nil)
	old := errors.New("too old")
	for _, c := range []struct {
		want     Bulk
		zeroCopy bool
		on       []string
		refused  error
		why      string
	}{
		{BulkAuto, false, segments, nil, ""},
		{BulkAuto, true, segments, nil, "without a copy"},
		{BulkAuto, false, none, nil, "does not segment UDP"},
		{BulkAuto, false, segments, old, "too old"},
		{BulkOnly, true, none, nil, ""},
		{BulkOnly, true, none, old, "too old"},
		{BulkOff, false, segments, nil, "turned off"},
	} {
		why := c.want.Refuses(&BulkFacts{Name: "eth7", ZeroCopy: c.zeroCopy, On: c.on, Refused: c.refused})
		if !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%+v: %q", c, why)
		}
	}
}

// The name of each choice is accepted by the command-line flags.
func TestBulkNames(t *testing.T) {
	for _, b := range []Bulk{BulkAuto, BulkOff, BulkOnly} {
		if got, err := ParseBulk(b.String()); err != nil || got != b {
			t.Errorf("%v: %v, %v", b, got, err)
		}
	}
	if _, err := ParseBulk("on"); err == nil || Bulk(7).String() != "bulk 7" {
		t.Error("an unknown choice has a name")
	}
}

// For an interface that cannot segment UDP, no command to enable it is given.
func TestUnsegmentedForGood(t *testing.T) {
	for _, changeable := range [][]string{nil, {"tx-scatter-gather"}} {
		if got := unsegmented("eth0", nil, changeable); !strings.Contains(got, "eth0 does not segment UDP") || strings.Contains(got, "ethtool") {
			t.Errorf("it can change %q: %q", changeable, got)
		}
	}
}
