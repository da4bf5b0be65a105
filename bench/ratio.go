package bench

import (
	"fmt"

	"github.com/ndxdp/ndxdp/nd"
)

// limit is a bound and a floor of a figure. Users check the bound (ndperf bars), CI checks the floor (ndperf validate). A floor is
// so low that a healthy build meets it even on a busy machine: it detects a broken build, not a slow one. TestCounts,
// TestSystemCalls and TestWakeUps detect the cost of a change.
type limit struct {
	want         string // "<=" or ">="
	bound, floor float64
}

// docs/PERFORMANCE.md lists the bounds.
var (
	writeLatVsRaw  = limit{"<=", 1.35, 50}
	writeP99VsRaw  = limit{"<=", 1.5, 500}
	writeLatVsTCP  = limit{"<=", 0.2, 20}
	writeBWVsRaw   = limit{">=", 0.9, 0.001}
	otherBWVsWrite = limit{">=", 0.9, 0.001}
	writeRateMops  = limit{">=", 8, 0.0001}

	// Limits of streams of 1 MiB with a bulk path, and of Writes over plain sockets, relative to the best kernel TCP at the same
	// MTU. Below MTU 9000, the bulk path makes up for the cost of packets.
	laneVsTCP      = limit{">=", 1.2, 0.001}
	laneVsTCPJumbo = limit{">=", 1.1, 0.001}
	socketsVsTCP   = limit{">=", 1, 0.001}

	// Limits of an encrypted stream of 1 MiB Writes, relative to crypto/tls over the best kernel TCP, and of an encrypted Write,
	// relative to a plain one.
	secureVsTLS   = limit{">=", 0.8, 0.001}
	secureVsPlain = limit{"<=", 1.25, 50}

	// Limit of a Write's latency beside a stream of 1 MiB Writes on another connection of the same adapter, relative to its median
	// alone.
	besideStream = limit{"<=", 10, 1e6}

	// Limit of a Send to a sleeping receiver, relative to TCP in blocking system calls.
	asleepP50 = limit{"<=", 1, 100}
	asleepP99 = limit{"<=", 1.5, 500}
	asleepCPU = limit{"<=", 1.3, 100}

	// Limit beside busy processes, relative to the best kernel TCP beside them.
	besideBW = limit{">=", 0.7, 0.001}

	connectsASecond = limit{">=", 10000, 100}
	idleBytes       = limit{"<=", 1024, 4096} // bytes of an idle connection, without the application's queues
	idleCPU         = limit{"<=", 2, 100}     // percent of a core, on each side
)

// Operations do not allocate. The Go runtime's own allocations during a test do not depend on the number of operations: an idle
// process that sleeps half a second shows 0 to 2. A process whose threads are descheduled, or whose first packets are lost, shows
// up to 200.
const (
	maxAllocsPerOp = 0.001
	runtimeAllocs  = 8

	// A new key of an encrypted connection is a cipher of two objects at either end. A key seals keyPackets packets, each of which has
	// leastPayload bytes unless it is the last one of an operation.
	keyAllocs    = 4
	keyPackets   = 1 << 21
	leastPayload = 1 << 10
)

var ofAllowedAllocs = limit{"<=", 1, 512}

// MostAllocations begins the names of ratios of allocations.
const MostAllocations = "most allocations, of those allowed"

// ofAllowed returns the allocations of a result, relative to the allowed number.
func (r *Result) ofAllowed() float64 {
	allowed := maxAllocsPerOp + runtimeAllocs/float64(max(r.Ops, 1))
	if r.Encrypted {
		allowed += keyAllocs * (1 + float64(r.Size)/leastPayload) / keyPackets
	}
	return r.AllocsPerOp / allowed
}

// SetRatios compares the results with the baselines of the same run and with fixed limits. Figures that were not measured have no
// ratio.
func (r *Report) SetRatios() {
	r.Ratios = []Ratio{}
	for i := range r.Results {
		x := &r.Results[i]
		if x.Streams > 0 {
			r.compareBeside(x)
			continue
		}
		if x.Connections > 1 || x.Direction != "" {
			continue // rivals have one connection, and sessions beside it allocate
		}
		switch x.Test {
		case WriteLat:
			r.compareLatency(x)
		case WriteBW:
			r.compareBandwidth(x)
		case WriteRate:
			if x.Mode == ModePoll && x.Size <= DefaultRateSize {
				r.addFigure(x, "write_rate, million a second", x.Mops, writeRateMops)
			}
		case ReadBW, SendBW:
			r.compareKernel(x)
			if w := r.result(WriteBW, x); w != nil && w.Gbps > 0 {
				r.addStream(x, string(x.Test)+" / write_bw", x.Gbps/w.Gbps, otherBWVsWrite)
			}
		case ReadLat, SendLat:
			r.noteLatency(x)
			r.compareAsleep(x)
		}
	}
	r.boundConnections()
	r.compareApps()
	r.compareAllocations()
}

// compareAllocations compares the result with the most allocations with the allowed number. It does so for each datapath, because
// each has code of its own, and separately for runs with streams.
func (r *Report) compareAllocations() {
	type way struct {
		datapath       string
		bulk, unpinned bool
	}
	worst, order := map[way]*Result{}, []way{}
	name := MostAllocations
	for i := range r.Results {
		x := &r.Results[i]
		if x.Streams > 0 {
			name = MostAllocations + ", with streams"
			continue
		}
		if x.Connections > 1 || x.Direction != "" || x.Told {
			continue // as in SetRatios; reporting intervals also allocates
		}
		at := way{x.Datapath, x.Bulk, x.Unpinned}
		if worst[at] == nil {
			order = append(order, at)
		}
		if worst[at] == nil || x.ofAllowed() > worst[at].ofAllowed() {
			worst[at] = x
		}
	}
	for _, at := range order {
		ratio := worst[at].ratio(name, worst[at].ofAllowed())
		ratio.Size, ratio.MTU = 0, 0 // the worst result has another size and MTU in each run
		ratio.hold(ofAllowedAllocs)
		r.Ratios = append(r.Ratios, ratio)
	}
}

// boundConnections compares the cost of many connections with fixed bounds.
func (r *Report) boundConnections() {
	for i := range r.Connections {
		x := &r.Connections[i]
		bound := func(name string, value float64, l limit) {
			ratio := Ratio{Name: name, Value: value, OK: true}
			if !overSockets(x.Datapath) { // as in addFigure
				ratio.hold(l)
			}
			r.Ratios = append(r.Ratios, ratio)
		}
		if x.Role == Requester {
			bound("connections opened a second", x.PerSecond, connectsASecond)
		}
		bound(fmt.Sprintf("bytes an idle connection (%s)", x.Role), x.OtherBytes, idleBytes)
		bound(fmt.Sprintf("idle CPU percent (%s)", x.Role), x.IdleCPU, idleCPU)
	}
}

// hold compares the figure with its limit.
func (x *Ratio) hold(l limit) {
	x.Bound, x.Floor, x.Want, x.OK = &l.bound, &l.floor, l.want, meets(x.Value, l.want, l.bound)
}

func meets(value float64, want string, bound float64) bool {
	if want == "<=" {
		return value <= bound
	}
	return value >= bound
}

// compareLatency compares half round trips with the rivals'. In event mode write_lat measures something else.
func (r *Report) compareLatency(x *Result) {
	if x.LatUS == nil || x.LatIs != HalfRoundTrip {
		return
	}
	bounds := map[string]limit{KindRaw: writeLatVsRaw, KindTCP: writeLatVsTCP}
	for _, kind := range []string{KindRaw, KindTCP, KindTCPSpin, KindTCPTLS, KindNDPlain, KindSockperf, KindUCX, KindFabric} {
		b := r.baseline(kind, x)
		if b == nil || b.LatUS == nil || b.LatUS.P50 <= 0 {
			continue
		}
		name, value := "write_lat p50 / "+kind, x.LatUS.P50/b.LatUS.P50
		small := x.Size <= DefaultLatSize
		switch l, ok := bounds[kind]; {
		case kind == KindNDPlain && small && !overSockets(x.Datapath):
			r.addRatio(x, name, value, secureVsPlain)
		case ok && small:
			r.addFigure(x, name, value, l)
		default:
			r.addNote(x, name, value)
		}
		if kind == KindRaw && b.LatUS.P99 > 0 && small {
			r.addFigure(x, "write_lat p99 / raw p99", x.LatUS.P99/b.LatUS.P99, writeP99VsRaw)
		}
	}
}

// compareBeside compares the latency beside streams with the latency alone.
func (r *Report) compareBeside(x *Result) {
	alone := r.result(x.Test, x)
	if x.LatUS == nil || alone == nil || alone.LatUS == nil || alone.LatUS.P50 <= 0 {
		return
	}
	name, value := fmt.Sprintf("%s p99 beside %d / p50 alone", x.Test, x.Streams), x.LatUS.P99/alone.LatUS.P50
	if x.Test == WriteLat && x.Streams == 1 && x.Mode == ModePoll && x.Size <= DefaultLatSize {
		r.addFigure(x, name, value, besideStream)
		return
	}
	r.addNote(x, name, value)
}

// noteLatency compares Reads and Sends with a raw message, as a round trip or one way. The bound of write_lat covers them.
func (r *Report) noteLatency(x *Result) {
	write := *x
	write.Test = WriteLat
	b := r.baseline(KindRaw, &write)
	if x.LatUS == nil || b == nil || b.LatUS == nil || b.LatUS.P50 <= 0 {
		return
	}
	if x.LatIs == HalfRoundTrip {
		r.addNote(x, string(x.Test)+" p50 / raw", x.LatUS.P50/b.LatUS.P50)
	} else {
		r.addNote(x, string(x.Test)+" p50 / raw there and back", x.LatUS.P50/b.LatUS.P50/2)
	}
}

// compareAsleep compares a Send with TCP, both to a sleeping receiver, in time and in processor time.
func (r *Report) compareAsleep(x *Result) {
	if x.Test != SendLat || x.Mode != ModeEvent || x.LatUS == nil {
		return
	}
	for _, kind := range []string{KindTCPBlock, KindTCP, KindSockperf} {
		b := r.baseline(kind, x)
		if b == nil || b.LatUS == nil || b.LatUS.P50 <= 0 || b.LatUS.P99 <= 0 {
			continue
		}
		p50, p99 := x.LatUS.P50/b.LatUS.P50, x.LatUS.P99/b.LatUS.P99
		if kind != KindTCPBlock || x.Size > DefaultLatSize {
			r.addNote(x, "send_lat asleep p50 / "+kind, p50)
			r.addNote(x, "send_lat asleep p99 / "+kind, p99)
			continue
		}
		r.addFigure(x, "send_lat asleep p50 / "+kind, p50, asleepP50)
		r.addFigure(x, "send_lat asleep p99 / "+kind, p99, asleepP99)
		if b.CPUUS > 0 && x.CPUUS > 0 {
			r.addFigure(x, "send_lat asleep CPU / "+kind, x.CPUUS/b.CPUUS, asleepCPU)
		}
	}
}

func (r *Report) compareBandwidth(x *Result) {
	if b := r.baseline(KindRaw, x); b != nil && b.Gbps > 0 {
		if x.Bulk { // raw packets do not use the bulk path
			r.addNote(x, "write_bw / raw", x.Gbps/b.Gbps)
		} else {
			r.addStream(x, "write_bw / raw", x.Gbps/b.Gbps, writeBWVsRaw)
		}
	}
	if best := r.bestKernel(x, true); best > 0 {
		r.addNote(x, "write_bw / "+x.kernel()+" at any MTU", x.Gbps/best)
	}
	r.compareKernel(x)
}

// compareKernel compares a stream with the best kernel TCP on the same link. Beside busy processes, this comparison has a bound.
func (r *Report) compareKernel(x *Result) {
	best := r.bestKernel(x, false)
	if best <= 0 {
		return
	}
	name, value := string(x.Test)+" / "+x.kernel(), x.Gbps/best
	if l := x.kernelLimit(); l != nil && r.Beside == 0 {
		r.addRatio(x, name, value, *l)
		return
	}
	if r.Beside == 0 || x.Size < DefaultBWSize || x.Test == ReadBW || overSockets(x.Datapath) {
		r.addNote(x, name, value)
		return
	}
	r.addRatio(x, fmt.Sprintf("%s, %d beside", name, r.Beside), value, besideBW)
}

// kernel returns the name of the best stream over kernel TCP that is as secure as x.
func (x *Result) kernel() string {
	if x.Encrypted {
		return "crypto/tls"
	}
	return "best TCP"
}

// kernelLimit returns the limit of a stream whose long messages use kernel sockets: by a bulk path, or over plain sockets at the
// MTU of Ethernet.
func (x *Result) kernelLimit() *limit {
	switch sockets := overSockets(x.Datapath); {
	case x.Size < DefaultBWSize || x.Mode != ModePoll:
		return nil
	case x.Encrypted:
		if x.Test == WriteBW {
			return &secureVsTLS
		}
		return nil
	case sockets && x.Test == WriteBW && x.MTU == etherMTU:
		return &socketsVsTCP
	case sockets || !x.Bulk:
		return nil
	case x.MTU < jumboMTU:
		return &laneVsTCP
	}
	return &laneVsTCPJumbo
}

// etherMTU is the MTU of Ethernet, and jumboMTU that of jumbo frames.
const (
	etherMTU = 1500
	jumboMTU = 9000
)

// bestKernel returns the best rate of kernel TCP streams that are as secure as x, at the MTU of x or at any MTU.
func (r *Report) bestKernel(x *Result, anyMTU bool) (best float64) {
	for _, b := range r.Baselines {
		if b.Kind != KindRaw && (b.Kind == KindTCPTLS) == x.Encrypted && b.Test == WriteBW && b.Size == x.Size && (anyMTU || b.MTU == x.MTU) {
			best = max(best, b.Gbps)
		}
	}
	return best
}

// addStream adds a comparison of streams. Its bound is about bytes; a stream of small messages is compared by rate.
func (r *Report) addStream(x *Result, name string, value float64, l limit) {
	if x.Size < DefaultBWSize {
		r.addNote(x, name, value)
		return
	}
	r.addFigure(x, name, value, l)
}

// addFigure adds a comparison whose limit applies to AF_XDP, free cores and plain connections. Over plain sockets, beside busy
// processes, and encrypted, it has no limit.
func (r *Report) addFigure(x *Result, name string, value float64, l limit) {
	if overSockets(x.Datapath) || r.Beside > 0 || x.Encrypted {
		r.addNote(x, name, value)
		return
	}
	r.addRatio(x, name, value, l)
}

// addRatio adds a comparison with a limit.
func (r *Report) addRatio(x *Result, name string, value float64, l limit) {
	ratio := x.ratio(name, value)
	ratio.hold(l)
	r.Ratios = append(r.Ratios, ratio)
}

// addNote adds a comparison without a bound.
func (r *Report) addNote(x *Result, name string, value float64) {
	r.Ratios = append(r.Ratios, x.ratio(name, value))
}

// ratio returns a comparison of the result, without a value.
func (x *Result) ratio(name string, value float64) Ratio {
	if x.Bulk {
		name += ", lane"
	}
	if x.Unpinned {
		name += ", unpinned"
	}
	if x.Encrypted {
		name += ", encrypted"
	}
	return Ratio{Name: name, Test: x.Test, Size: x.Size, MTU: x.MTU, Datapath: x.Datapath, Value: value, OK: true}
}

// result finds another test's result under the conditions of x.
func (r *Report) result(t Test, x *Result) *Result {
	for i := range r.Results {
		if y := &r.Results[i]; y.Test == t && y.Size == x.Size && y.MTU == x.MTU && y.Datapath == x.Datapath && y.Unpinned == x.Unpinned && y.Bulk == x.Bulk &&
			y.Streams == 0 && y.Connections <= 1 && y.Direction == "" {
			return y
		}
	}
	return nil
}

// baseline finds the rival of x, preferably on the same datapath. Kernel TCP has no datapath, and raw has no variant over plain
// sockets.
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

// overSockets reports whether a datapath sends by plain sockets, to which bounds of AF_XDP do not apply.
func overSockets(name string) bool {
	d, err := nd.ParseDatapath(name)
	return err == nil && d.OverSockets()
}
