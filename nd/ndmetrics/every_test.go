package ndmetrics

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ndxdp/ndxdp/nd"
)

// sums are counters of Stats that are sums of others with metrics. A query adds these up itself.
var sums = map[string][]string{"Bulk.Left": {"Bulk.Unanswered", "Bulk.TimedOut", "Bulk.Lossy"}}

// counter is a field of Stats or of one of its groups.
type counter struct {
	name  string // Group.Field
	index []int
}

// counters returns the counter fields of a type, including those of groups.
func counters(of reflect.Type, name string, index []int) (all []counter) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(slices.Clone(index), i)
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[nd.RequestLatency]() {
			all = append(all, counters(f.Type, name+f.Name+".", at)...)
		} else {
			all = append(all, counter{name + f.Name, at})
		}
	}
	return all
}

// counted is a collector with counters that do not belong to an adapter.
type counted struct {
	*Collector
	stats *nd.Stats
}

func (c counted) Collect(ch chan<- prometheus.Metric) { c.collect(c.stats, ch) }

// collected returns the values of all metrics of s, by name and labels.
func collected(t *testing.T, c *Collector, s *nd.Stats) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(counted{c, s}); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var at strings.Builder
			at.WriteString(f.GetName())
			for _, l := range m.GetLabel() {
				at.WriteString(" " + l.GetValue())
			}
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			for _, b := range m.GetHistogram().GetBucket() {
				v += float64(b.GetCumulativeCount())
			}
			values[at.String()] = v
		}
	}
	return values
}

// each sets each number in a field of s in turn, with all others zero, and calls f.
func each(t *testing.T, s *nd.Stats, c counter, f func(what string)) {
	t.Helper()
	at := reflect.ValueOf(s).Elem().FieldByIndex(c.index)
	keys := map[string][]string{
		"LimitedSeconds": nd.LimitNames(), "Drops": nd.DropReasons(), "Operations.Done": nd.OperationNames(), "Operations.Bytes": nd.PayloadNames(),
	}[c.name]
	switch {
	case at.Kind() == reflect.Uint64:
		at.SetUint(7)
		f(c.name)
		at.SetUint(0)
	case at.Kind() == reflect.Map && len(keys) > 0:
		for _, key := range keys {
			m := reflect.MakeMap(at.Type())
			m.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(7).Convert(at.Type().Elem()))
			at.Set(m)
			f(c.name + " " + key)
		}
		at.SetZero()
	case at.Type() == reflect.TypeFor[nd.RequestLatency]():
		latency := &s.Operations.Latency
		latency.Counts[0] = 7
		f(c.name + ".Counts")
		latency.Counts[0], latency.Sum = 0, 7
		f(c.name + ".Sum")
		latency.Sum = 0
	default:
		t.Fatalf("Stats.%s is a %v: this test does not know how to count there", c.name, at.Type())
	}
}

// TestEveryCounterHasAMetric sets the fields of nd.Stats one by one: each field changes exactly one metric, and no two fields
// change the same one.
func TestEveryCounterHasAMetric(t *testing.T) {
	collector := NewCollector(newAdapter(t))
	s := nd.Stats{Operations: nd.OperationStats{Latency: nd.RequestLatency{Counts: make([]uint64, len(nd.LatencyBounds())+1)}}}
	still := collected(t, collector, &s)
	owner := map[string]string{}
	all := counters(reflect.TypeFor[nd.Stats](), "", nil)
	for _, c := range all {
		for _, part := range sums[c.name] {
			if sums[part] != nil || !slices.ContainsFunc(all, func(c counter) bool { return c.name == part }) {
				t.Errorf("%s is no part of %s", part, c.name)
			}
		}
		if sums[c.name] != nil {
			continue
		}
		each(t, &s, c, func(what string) {
			t.Helper()
			var moved []string
			for at, v := range collected(t, collector, &s) {
				if v != still[at] {
					moved = append(moved, at)
				}
			}
			if len(moved) != 1 {
				t.Errorf("Stats.%s changes %d metrics, want 1: %s", what, len(moved), strings.Join(moved, ", "))
			}
			for _, at := range moved {
				if was := owner[at]; was != "" && !strings.HasPrefix(what, "Operations.Latency") {
					t.Errorf("Stats.%s changes the metric of Stats.%s: %s", what, was, at)
				}
				owner[at] = what
			}
		})
	}
	if len(owner) != len(still) {
		t.Errorf("%d metrics of %d count what Stats has", len(owner), len(still))
	}
}
