package bench

import (
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		spec              Spec
		size, depth, list int
	}{
		{Spec{Test: WriteLat}, 64, 1, 1},
		{Spec{Test: WriteBW}, 1 << 20, 3, 1},
		{Spec{Test: SendBW, Size: 64}, 64, 64, 1},
		{Spec{Test: ReadBW, Size: 1 << 28}, 1 << 28, 2, 1},
		{Spec{Test: WriteRate}, 64, 512, 32},
		{Spec{Test: WriteRate, ListSize: 8}, 64, 128, 8},
	} {
		got := c.spec.WithDefaults()
		if got.Size != c.size || got.Depth != c.depth || got.ListSize != c.list || got.Duration != DefaultDuration {
			t.Errorf("%+v: defaults are %+v", c.spec, got)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%+v: defaults do not validate: %v", c.spec, err)
		}
	}
}

// TestStreamsShareAWorkingSet: at every size, streams of nd use as much memory as streams of raw and kernel TCP.
func TestStreamsShareAWorkingSet(t *testing.T) {
	for size := 1; size <= 1<<20; size *= 2 {
		for _, test := range []Test{WriteBW, ReadBW, SendBW} {
			if s := (Spec{Test: test, Size: size}).WithDefaults(); s.slots()*size != bwWorkingSet {
				t.Errorf("%s goes through %d bytes, its rivals through %d", s, s.slots()*size, bwWorkingSet)
			}
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	good := Spec{Test: WriteBW}.WithDefaults()
	for _, c := range []struct {
		word   string
		change func(*Spec)
	}{
		{"test", func(s *Spec) { s.Test = "teleport" }},
		{"size", func(s *Spec) { s.Size = -1 }},
		{"size", func(s *Spec) { s.Size = MaxSize + 1 }},
		{"duration", func(s *Spec) { s.Duration = time.Microsecond }},
		{"depth", func(s *Spec) { s.Depth = 1 << 20 }},
		{"list size", func(s *Spec) { s.ListSize = s.Depth + 1 }},
		{"memory", func(s *Spec) { s.Size, s.ListSize, s.Depth = MaxSize, 64, 64 }},
	} {
		s := good
		c.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%+v: error is %v, want one about the %s", s, err, c.word)
		}
	}
}

func TestPlan(t *testing.T) {
	specs, err := Plan([]Test{WriteLat, WriteBW}, []int{64, 4096}, Spec{Duration: time.Second, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range specs {
		got = append(got, s.String())
		if !s.Verify || s.Duration != time.Second {
			t.Errorf("%s lost its base: %+v", s, s)
		}
	}
	want := "write_lat 64 B,write_lat 4 KiB,write_bw 64 B,write_bw 4 KiB"
	if strings.Join(got, ",") != want {
		t.Errorf("plan is %v, want %s", got, want)
	}
	if _, err := Plan(nil, nil, Spec{}); err == nil {
		t.Error("an empty plan is not an error")
	}
}

func TestJobBudgetCoversItsSpecs(t *testing.T) {
	j := Job{Specs: []Spec{{Duration: time.Second}, {Duration: 3 * time.Second}}}
	if j.Budget() < 8*time.Second || j.Budget() > 5*time.Minute {
		t.Errorf("budget is %v", j.Budget())
	}
}
