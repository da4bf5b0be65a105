package bench

import (
	"fmt"

	"github.com/ndxdp/ndxdp/nd"
)

// Bounds of a first landing; docs/PERFORMANCE.md explains each and says where they are going.
const (
	maxWriteLatVsRaw  = 1.6
	maxWriteLatVsTCP  = 0.2
	minWriteBWVsRaw   = 0.75
	minOtherBWVsWrite = 0.9
	minWriteRateMops  = 2.0
	maxAllocsPerOp    = 0.001 // zero, as measured

	minConnects  = 10000 // a second
	maxIdleBytes = 1024  // of an idle connection, beside the application's queues
	maxIdleCPU   = 2.0   // percent of a core, on either side
	// runtimeAllocs is what the Go runtime may allocate for itself on either side while a test runs, however many
	// operations that has: an idle process that sleeps half a second shows 0 to 2.
	runtimeAllocs = 8
)

// allocsBound is the most allocations per operation of a run of so many operations.
func allocsBound(ops uint64) float64 { return maxAllocsPerOp + runtimeAllocs/float64(max(ops, 1)) }

// SetRatios compares the results with the baselines of the same run and with the fixed floors. Figures that were not
// measured yield no ratio.
func (r *Report) SetRatios() {
	r.Ratios = []Ratio{}
	var worstAllocs *Result
	for i := range r.Results {
		x := &r.Results[i]
		if worstAllocs == nil || x.AllocsPerOp-allocsBound(x.Ops) > worstAllocs.AllocsPerOp-allocsBound(worstAllocs.Ops) {
			worstAllocs = x
		}
		switch x.Test {
		case WriteLat:
			r.compareLatency(x)
		case WriteBW:
			r.compareBandwidth(x)
		case WriteRate:
			if x.Mode == ModePoll && x.Size <= DefaultRateSize {
				r.addFigure(x, "write_rate, million a second", x.Mops, ">=", minWriteRateMops)
			}
		case ReadBW, SendBW:
			if w := r.result(WriteBW, x); w != nil && w.Gbps > 0 {
				r.addStream(x, string(x.Test)+" / write_bw", x.Gbps/w.Gbps, minOtherBWVsWrite)
			}
		case ReadLat, SendLat:
			// Their bound is the one of write_lat; the table shows them beside it.
		}
	}
	r.boundConnections()
	if worstAllocs != nil {
		name := fmt.Sprintf("most allocations per operation (%s)", worstAllocs.Test)
		r.addRatio(worstAllocs, name, worstAllocs.AllocsPerOp, "<=", allocsBound(worstAllocs.Ops))
	}
}

// boundConnections holds what many connections cost against fixed bounds.
func (r *Report) boundConnections() {
	for i := range r.Connections {
		x := &r.Connections[i]
		bound := func(name string, value float64, want string, bound float64) {
			ratio := Ratio{Name: name, Value: value, OK: true}
			if x.Datapath != nd.DatapathUDP.String() { // as in addFigure
				ratio.Bound, ratio.Want, ratio.OK = &bound, want, meets(value, want, bound)
			}
			r.Ratios = append(r.Ratios, ratio)
		}
		if x.Role == Requester {
			bound("connections opened a second", x.PerSecond, ">=", minConnects)
		}
		bound(fmt.Sprintf("bytes per idle connection (%s)", x.Role), x.OtherBytes, "<=", maxIdleBytes)
		bound(fmt.Sprintf("idle CPU, percent of a core (%s)", x.Role), x.IdleCPU, "<=", maxIdleCPU)
	}
}

func meets(value float64, want string, bound float64) bool {
	if want == "<=" {
		return value <= bound
	}
	return value >= bound
}

// compareLatency holds half round trips against those of the rivals. In event mode write_lat is something else.
func (r *Report) compareLatency(x *Result) {
	if x.LatUS == nil || x.LatIs != HalfRoundTrip {
		return
	}
	bounds := map[string]float64{KindRaw: maxWriteLatVsRaw, KindTCP: maxWriteLatVsTCP}
	for _, kind := range []string{KindRaw, KindTCP, KindTCPSpin} {
		b := r.baseline(kind, x)
		if b == nil || b.LatUS == nil || b.LatUS.P50 <= 0 {
			continue
		}
		name, value := "write_lat p50 / "+kind, x.LatUS.P50/b.LatUS.P50
		if bound, ok := bounds[kind]; ok && x.Size <= DefaultLatSize {
			r.addFigure(x, name, value, "<=", bound)
		} else {
			r.addNote(x, name, value)
		}
	}
}

func (r *Report) compareBandwidth(x *Result) {
	if b := r.baseline(KindRaw, x); b != nil && b.Gbps > 0 {
		r.addStream(x, "write_bw / raw", x.Gbps/b.Gbps, minWriteBWVsRaw)
	}
	best := 0.0
	for _, b := range r.Baselines {
		if b.Kind != KindRaw && b.Test == WriteBW && b.Size == x.Size {
			best = max(best, b.Gbps)
		}
	}
	if best > 0 {
		r.addNote(x, "write_bw / best kernel TCP at any MTU", x.Gbps/best)
	}
}

// addStream adds a comparison of streams. Their bounds are about moving bytes: a stream of small messages is a rate.
func (r *Report) addStream(x *Result, name string, value, bound float64) {
	if x.Size < DefaultBWSize {
		r.addNote(x, name, value)
		return
	}
	r.addFigure(x, name, value, ">=", bound)
}

// addFigure adds a comparison with a bound that holds for AF_XDP: over plain sockets it is for information.
func (r *Report) addFigure(x *Result, name string, value float64, want string, bound float64) {
	if x.Datapath == nd.DatapathUDP.String() {
		r.addNote(x, name, value)
		return
	}
	r.addRatio(x, name, value, want, bound)
}

// addRatio adds a comparison with a bound.
func (r *Report) addRatio(x *Result, name string, value float64, want string, bound float64) {
	r.Ratios = append(r.Ratios, Ratio{
		Name: name, Test: x.Test, Size: x.Size, MTU: x.MTU, Datapath: x.Datapath,
		Value: value, Bound: &bound, Want: want, OK: meets(value, want, bound),
	})
}

// addNote adds a comparison without a bound.
func (r *Report) addNote(x *Result, name string, value float64) {
	r.Ratios = append(r.Ratios, Ratio{
		Name: name, Test: x.Test, Size: x.Size, MTU: x.MTU, Datapath: x.Datapath, Value: value, OK: true,
	})
}

// result finds what another test measured under the conditions of x.
func (r *Report) result(t Test, x *Result) *Result {
	for i := range r.Results {
		if y := &r.Results[i]; y.Test == t && y.Size == x.Size && y.MTU == x.MTU && y.Datapath == x.Datapath {
			return y
		}
	}
	return nil
}

// baseline finds the rival of x: the one on the same datapath if there is one, else any. Kernel TCP has no datapath, and raw
// has none of its own that is like plain sockets.
func (r *Report) baseline(kind string, x *Result) *Baseline {
	var found *Baseline
	for i := range r.Baselines {
		b := &r.Baselines[i]
		if b.Kind != kind || b.Test != x.Test || b.Size != x.Size || b.MTU != x.MTU {
			continue
		}
		if b.Datapath == x.Datapath {
			return b
		}
		if found == nil {
			found = b
		}
	}
	return found
}
