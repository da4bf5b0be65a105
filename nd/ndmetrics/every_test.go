package ndmetrics

import (
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ndxdp/ndxdp/nd"
)

// sums are counters of Stats that only add up others which have metrics: a query sums those up itself.
var sums = map[string][]string{"BulkLeft": {"BulkUnanswered", "BulkTimedOut", "BulkLossy"}}

// counted is a collector of counters that no adapter has.
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

// each calls f for each number in a field of s, while that one alone is not zero.
func each(t *testing.T, s *nd.Stats, field reflect.StructField, f func(what string)) {
	t.Helper()
	at := reflect.ValueOf(s).Elem().FieldByIndex(field.Index)
	keys := map[string][]string{
		"LimitedSeconds": nd.LimitNames(), "Drops": nd.DropReasons(), "Operations": nd.OperationNames(), "PayloadBytes": nd.PayloadNames(),
	}[field.Name]
	switch {
	case field.Type.Kind() == reflect.Uint64:
		at.SetUint(7)
		f(field.Name)
		at.SetUint(0)
	case field.Type.Kind() == reflect.Map && len(keys) > 0:
		for _, key := range keys {
			m := reflect.MakeMap(field.Type)
			m.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(7).Convert(field.Type.Elem()))
			at.Set(m)
			f(field.Name + " " + key)
		}
		at.SetZero()
	case field.Type == reflect.TypeFor[nd.RequestLatency]():
		s.RequestLatency.Counts[0] = 7
		f(field.Name + ".Counts")
		s.RequestLatency.Counts[0], s.RequestLatency.Sum = 0, 7
		f(field.Name + ".Sum")
		s.RequestLatency.Sum = 0
	default:
		t.Fatalf("Stats.%s is a %v: this test does not know how to count there", field.Name, field.Type)
	}
}

// TestEveryCounterHasAMetric goes through nd.Stats field by field: what is counted there changes one metric, and that one is another field's nowhere.
func TestEveryCounterHasAMetric(t *testing.T) {
	c := NewCollector(newAdapter(t))
	s := nd.Stats{RequestLatency: nd.RequestLatency{Counts: make([]uint64, len(nd.LatencyBounds())+1)}}
	still := collected(t, c, &s)
	owner := map[string]string{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[nd.Stats]()) {
		for _, part := range sums[field.Name] {
			if sums[part] != nil || !reflect.ValueOf(s).FieldByName(part).IsValid() {
				t.Errorf("%s is no part of %s", part, field.Name)
			}
		}
		if sums[field.Name] != nil {
			continue
		}
		each(t, &s, field, func(what string) {
			t.Helper()
			var moved []string
			for at, v := range collected(t, c, &s) {
				if v != still[at] {
					moved = append(moved, at)
				}
			}
			if len(moved) != 1 {
				t.Errorf("Stats.%s changes %d metrics, want 1: %s", what, len(moved), strings.Join(moved, ", "))
			}
			for _, at := range moved {
				if was := owner[at]; was != "" && !strings.HasPrefix(what, "RequestLatency") {
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
