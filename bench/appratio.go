package bench

import (
	"cmp"
	"fmt"
	"slices"
)

// A program over ND is compared with the same program over TCP, pinned or not, whichever has the better figure. docs/PERFORMANCE.md
// lists the bounds. The bounds of plain sockets allow for their cost per packet.
var (
	echoTime    = limit{"<=", 1, 10000}
	echoTimeUDP = limit{"<=", 1.2, 10000}
	appRate     = limit{">=", 1, 0.00005}
	streamUDP   = limit{">=", 0.8, 0.00005}
	appsIdleCPU = limit{"<=", 0.2, 100} // percent of a core

	// An encrypted program is compared with crypto/tls over TCP, and a stream also with crypto/tls over ND. A program that receives
	// much pays for each byte as TCP does.
	secureEcho   = limit{"<=", 0.7, 10000}
	secureHTTP   = limit{">=", 1, 0.00005}
	secureStream = limit{">=", 0.8, 0.00005}
	secureOpen   = limit{">=", 0.8, 0.00005}
	streamVsOver = limit{">=", 1.5, 0.00005}
)

// boundedStreamMTU is the least MTU at which a stream has a bound. Below it, TCP crosses a virtual link in segments of 64 KiB.
const boundedStreamMTU = 9000

// compareApps compares programs over ND with programs over TCP.
func (r *Report) compareApps() {
	for i := range r.Apps {
		x := &r.Apps[i]
		if x.Over != OverND {
			continue
		}
		if x.Test == AppIdle {
			r.addApp(x, "CPU percent", max(x.RequesterCPU, x.ResponderCPU), &appsIdleCPU)
			continue
		}
		udp := overSockets(x.Datapath)
		rival := "tcp"
		if x.Encrypted {
			rival = "crypto/tls"
		}
		rate := func(y *AppResult) float64 { return y.PerSecond }
		r.versus(OverTCP, x, "p50 / "+rival, func(y *AppResult) float64 { return y.P50US }, false, x.timeLimit(udp))
		r.versus(OverTCP, x, "rate / "+rival, rate, true, x.rateLimit(udp))
		r.versus(OverTCP, x, "CPU / "+rival, func(y *AppResult) float64 { return y.CPUUS }, false, nil)
		r.versus(OverNDTLS, x, "rate / crypto/tls over nd", rate, true, &streamVsOver)
	}
}

// timeLimit returns the limit of the time of an operation, or none for programs that are compared by rate.
func (x *AppResult) timeLimit(udp bool) *limit {
	switch {
	case x.Test != AppEcho, x.Encrypted && x.Connections > 1:
		return nil
	case x.Encrypted:
		return &secureEcho
	case udp:
		return &echoTimeUDP
	default:
		return &echoTime
	}
}

// rateLimit returns the limit of the rate of operations.
func (x *AppResult) rateLimit(udp bool) *limit {
	switch {
	case x.Encrypted:
		return map[AppTest]*limit{AppHTTP: &secureHTTP, AppStream: &secureStream, AppOpen: &secureOpen}[x.Test]
	case x.Test == AppOpen:
		return nil
	case x.Test == AppStream && udp:
		return &streamUDP
	case udp, x.Test == AppGRPC, x.Test == AppStream && x.MTU < boundedStreamMTU:
		return nil
	default:
		return &appRate
	}
}

// versus adds the ratio of one figure to the better figure of a rival, pinned or not.
func (r *Report) versus(over string, x *AppResult, name string, figure func(*AppResult) float64, more bool, l *limit) {
	var rivals []float64
	for i := range r.Apps {
		if y := &r.Apps[i]; y.Over == over && y.Encrypted == x.Encrypted && y.Spec() == x.Spec() && figure(y) > 0 {
			rivals = append(rivals, figure(y))
		}
	}
	if len(rivals) == 0 || figure(x) <= 0 {
		return
	}
	best := slices.Min(rivals)
	if more {
		best = slices.Max(rivals)
	}
	r.addApp(x, name, figure(x)/best, l)
}

// addApp adds a ratio, with a bound if the machine has free processors.
func (r *Report) addApp(x *AppResult, name string, value float64, l *limit) {
	name = fmt.Sprintf("%s %d %s", x.Test, x.Connections, name)
	if x.Pinned {
		name += ", pinned"
	}
	if r.Beside > 0 {
		name += fmt.Sprintf(", %d beside", r.Beside)
	}
	ratio := Ratio{Name: name, MTU: x.MTU, Datapath: x.Datapath, Value: value, OK: true}
	if x.Size == appAnswer {
		ratio.Size = x.Size
	}
	if l != nil && r.Beside == 0 {
		ratio.hold(*l)
	}
	r.Ratios = append(r.Ratios, ratio)
}

// median returns the median, or the lower of the two middle values.
func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.SortFunc(values, cmp.Compare)
	return values[(len(values)-1)/2]
}
