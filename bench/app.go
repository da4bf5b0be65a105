package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// KindApps is the job kind that runs ordinary programs of package net, over ND or over kernel TCP (package apps).
const KindApps = "apps"

// AppTest is the name of an ordinary program.
type AppTest string

// Programs to measure.
const (
	AppEcho   AppTest = "echo"   // each connection sends a message and waits for it to come back
	AppHTTP   AppTest = "http"   // net/http, successive requests on each connection
	AppGRPC   AppTest = "grpc"   // google.golang.org/grpc, successive unary calls on each connection
	AppStream AppTest = "stream" // one direction, as fast as possible
	AppOpen   AppTest = "open"   // each operation opens a connection, exchanges a message, and closes it
	AppIdle   AppTest = "idle"   // connections that do nothing
)

// AppTests lists every program, in the order of runs and of tables.
func AppTests() []AppTest { return []AppTest{AppEcho, AppHTTP, AppGRPC, AppStream, AppOpen, AppIdle} }

// Transports of a program.
const (
	OverND    = "nd"
	OverTCP   = "tcp"
	OverNDTLS = "nd_tls" // crypto/tls over ND without encryption; OverND and OverTCP are encrypted if the job has an identity
)

const (
	// appMessage is the size of echoes and answers; it is the size used for latency.
	appMessage = DefaultLatSize
	// AppChunk is the size of a stream's writes: iperf3's default.
	AppChunk = 128 << 10
	// appAnswer is the size of large answers of net/http.
	appAnswer = 64 << 10
	// appsPerConnection bounds the time to open and close a connection.
	appsPerConnection = 5 * time.Millisecond
)

// AppSpec describes one measurement of a program.
type AppSpec struct {
	Test        AppTest       `json:"test"`
	Connections int           `json:"connections"`
	Size        int           `json:"size"` // of a message, in bytes
	MTU         int           `json:"mtu"`  // of the link
	Duration    time.Duration `json:"duration"`
}

// AppSpecs returns the measurements at one MTU: d is the time of programs, idle that of idle connections. DefaultIdle is a whole
// round of keep-alives, which shows the cost of idle connections. The bounds of each test apply to these numbers of connections.
// Encrypted programs also send large answers, because encryption costs time for each byte.
func AppSpecs(tests []AppTest, mtu int, d, idle time.Duration, encrypted bool) (specs []AppSpec) {
	connections := map[AppTest][]int{AppEcho: {1, 16, 128}, AppHTTP: {1, 16}, AppGRPC: {1}, AppStream: {1}, AppOpen: {16}, AppIdle: {1000}}
	if encrypted {
		connections[AppHTTP] = []int{1, 16, 128}
	}
	for _, t := range tests {
		size, lasts := appMessage, d
		if t == AppStream {
			size = AppChunk
		}
		if t == AppIdle {
			lasts = idle
		}
		for _, n := range connections[t] {
			specs = append(specs, AppSpec{t, n, size, mtu, lasts})
			if t == AppHTTP && encrypted {
				specs = append(specs, AppSpec{t, n, appAnswer, mtu, lasts})
			}
		}
	}
	return specs
}

// Program names the program, its connections, and the size of large answers.
func (s AppSpec) Program() string {
	name := fmt.Sprintf("%s %d", s.Test, s.Connections)
	if s.Size == appAnswer {
		name += " " + FormatSize(s.Size)
	}
	return name
}

// String describes the spec in progress lines and errors.
func (s AppSpec) String() string {
	if s.MTU == 0 {
		return s.Program()
	}
	return fmt.Sprintf("%s mtu %d", s.Program(), s.MTU)
}

// WarmUp returns how long the program runs before it is measured, and how long idle connections rest.
func (s AppSpec) WarmUp() time.Duration {
	if s.Test == AppIdle {
		return restTime
	}
	return Spec{Duration: s.Duration}.warmUp()
}

// Budget returns the time after which a running program counts as hung.
func (s AppSpec) Budget() time.Duration {
	return s.WarmUp() + 2*s.Duration + 3*connectTimeout + time.Duration(s.Connections)*appsPerConnection
}

// AppPlan is the task of a KindApps job: specs to run in order.
type AppPlan struct {
	Over  string    `json:"over"`
	Specs []AppSpec `json:"specs"`
}

// AppSide is the result of one side. Only the requester counts operations.
type AppSide struct {
	Role       Role          `json:"role"`
	Spec       AppSpec       `json:"spec"`
	Datapath   string        `json:"datapath,omitempty"` // of ND
	Ops        uint64        `json:"ops,omitempty"`
	Bytes      uint64        `json:"bytes,omitempty"`
	Seconds    float64       `json:"seconds,omitempty"`
	LatUS      *Latency      `json:"lat_us,omitempty"`
	CPU        time.Duration `json:"cpu"`  // processor time of this process during the measurement
	CPUElapsed time.Duration `json:"took"` // duration of the measurement
}

// AppRound is the result of both sides in one round.
type AppRound struct {
	Seconds   float64 `json:"seconds"`
	Ops       uint64  `json:"ops,omitempty"` // operations; zero for idle connections
	Bytes     uint64  `json:"bytes,omitempty"`
	PerSecond float64 `json:"per_second,omitempty"`
	Gbps      float64 `json:"gbps,omitempty"`
	P50US     float64 `json:"p50_us,omitempty"` // of a whole operation; zero for a stream
	P99US     float64 `json:"p99_us,omitempty"`
	// CPUUS is the processor time of both processes per operation. The CPU fields are each process's share of one core in percent.
	CPUUS        float64 `json:"cpu_us,omitempty"`
	RequesterCPU float64 `json:"requester_cpu_percent"`
	ResponderCPU float64 `json:"responder_cpu_percent"`
}

// JoinApp joins the results of both sides.
func JoinApp(requester, responder AppSide) AppRound {
	r := AppRound{
		Seconds: requester.Seconds, Ops: requester.Ops, Bytes: requester.Bytes,
		RequesterCPU: percent(requester.CPU, requester.CPUElapsed), ResponderCPU: percent(responder.CPU, responder.CPUElapsed),
	}
	if r.Ops > 0 {
		r.PerSecond = float64(r.Ops) / r.Seconds
		r.Gbps, _ = rates(r.Ops, r.Bytes, r.Seconds)
		r.CPUUS = (requester.CPU + responder.CPU).Seconds() * 1e6 / float64(r.Ops)
	}
	if l := requester.LatUS; l != nil {
		r.P50US, r.P99US = l.P50, l.P99
	}
	return r
}

func percent(cpu, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return 100 * cpu.Seconds() / of.Seconds()
}

// AppResult is a program over one transport: its rounds, and the median of each figure.
type AppResult struct {
	Test        AppTest `json:"test"`
	Connections int     `json:"connections"`
	Size        int     `json:"size"`
	MTU         int     `json:"mtu"`
	Over        string  `json:"over"`                // OverND, OverTCP or OverNDTLS
	Datapath    string  `json:"datapath,omitempty"`  // of ND
	Encrypted   bool    `json:"encrypted,omitempty"` // the connections used TLS: of ND, or crypto/tls over TCP
	Pinned      bool    `json:"pinned"`              // each process on a core of its own; otherwise both may use all cores
	Verified    bool    `json:"verified"`            // the bytes of each operation were checked
	AppRound
	Rounds []AppRound `json:"rounds"`
}

// Result returns the result of the requester's program, without figures yet. Package apps checks the bytes of each operation.
func (s AppSide) Result(over string, pinned, encrypted bool) AppResult {
	return AppResult{
		Encrypted: encrypted,
		Test:      s.Spec.Test, Connections: s.Spec.Connections, Size: s.Spec.Size, MTU: s.Spec.MTU,
		Over: over, Datapath: s.Datapath, Pinned: pinned, Verified: true,
	}
}

// Spec returns the measured spec.
func (x *AppResult) Spec() AppSpec {
	return AppSpec{Test: x.Test, Connections: x.Connections, Size: x.Size, MTU: x.MTU}
}

// By returns the name of the transport.
func (x *AppResult) By() string {
	by := x.Over
	if x.Datapath != "" {
		by += " " + x.Datapath
	}
	if x.Encrypted {
		by += ", TLS"
	}
	if x.Pinned {
		by += ", pinned"
	}
	return by
}

// AddApp adds a round to the result of the same program under the same conditions, and updates the medians.
func (r *Report) AddApp(x AppResult, round AppRound) {
	var at *AppResult
	for i := range r.Apps {
		if y := &r.Apps[i]; y.Spec() == x.Spec() && y.Over == x.Over && y.Pinned == x.Pinned && y.Encrypted == x.Encrypted {
			at = y
		}
	}
	if at == nil {
		r.Apps = append(r.Apps, x)
		at = &r.Apps[len(r.Apps)-1]
	}
	at.Rounds = append(at.Rounds, round)
	at.AppRound = medianRound(at.Rounds)
}

// medianRound returns the median of each figure. Operations, bytes and seconds are sums.
func medianRound(rounds []AppRound) AppRound {
	of := func(get func(AppRound) float64) float64 {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = get(r)
		}
		return median(values)
	}
	m := AppRound{
		PerSecond: of(func(r AppRound) float64 { return r.PerSecond }), Gbps: of(func(r AppRound) float64 { return r.Gbps }),
		P50US: of(func(r AppRound) float64 { return r.P50US }), P99US: of(func(r AppRound) float64 { return r.P99US }),
		CPUUS:        of(func(r AppRound) float64 { return r.CPUUS }),
		RequesterCPU: of(func(r AppRound) float64 { return r.RequesterCPU }),
		ResponderCPU: of(func(r AppRound) float64 { return r.ResponderCPU }),
	}
	for _, r := range rounds {
		m.Seconds, m.Ops, m.Bytes = m.Seconds+r.Seconds, m.Ops+r.Ops, m.Bytes+r.Bytes
	}
	return m
}

// sane checks that the figures are complete and consistent.
func (x *AppResult) sane() error {
	switch {
	case x.Connections < 1 || len(x.Rounds) == 0:
		return fmt.Errorf("the result has %d connections and %d rounds: it needs at least one of each", x.Connections, len(x.Rounds))
	case x.Over != OverTCP && (x.Over != OverND && x.Over != OverNDTLS || x.Datapath == ""):
		return fmt.Errorf("the result has transport %q and datapath %q: it needs %q, or %q or %q with a datapath", x.Over, x.Datapath, OverTCP, OverND, OverNDTLS)
	case !x.Verified:
		return errors.New("the bytes were not verified")
	}
	for _, r := range append(x.Rounds, x.AppRound) {
		for _, v := range []float64{r.Seconds, r.PerSecond, r.Gbps, r.P50US, r.P99US, r.CPUUS, r.RequesterCPU, r.ResponderCPU} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return fmt.Errorf("figures must not be negative: %+v", r)
			}
		}
		timed := x.Test != AppIdle && x.Test != AppStream
		switch {
		case r.Seconds <= 0 || x.Test != AppIdle && (r.Ops == 0 || r.Bytes == 0 || r.PerSecond <= 0 || r.Gbps <= 0):
			return fmt.Errorf("no data was transferred: %+v", r)
		case timed && (r.P50US <= 0 || r.P99US < r.P50US):
			return fmt.Errorf("the median latency must be positive, and the 99th percentile not below it: %+v", r)
		}
	}
	return saneSize(x.Size, x.MTU)
}

// SortApps sorts results by MTU, program and connections, with ND before TCP.
func (r *Report) SortApps() {
	slices.SortStableFunc(r.Apps, func(a, b AppResult) int {
		rank := func(x *AppResult) int { return slices.Index(AppTests(), x.Test) }
		return cmp.Or(cmp.Compare(a.MTU, b.MTU), cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Connections, b.Connections),
			cmp.Compare(a.Size, b.Size), cmp.Compare(a.Over, b.Over))
	})
}
