package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Schema is the name of the JSON form of a Report. It changes if a field changes its meaning or is removed.
const Schema = "ndperf/1"

// Values of LatIs: what a latency covers.
const (
	HalfRoundTrip = "half_round_trip" // a round trip between two applications, divided by two
	WholeOp       = "operation"       // from posting a request to its completion
)

// Result is one measurement over package nd.
type Result struct {
	Test        Test     `json:"test"`
	Size        int      `json:"size"`
	MTU         int      `json:"mtu"`
	Mode        string   `json:"mode"` // poll or event
	Datapath    string   `json:"datapath"`
	Why         string   `json:"datapath_reason,omitempty"` // of the requester's datapath; missing in older reports
	ZeroCopy    bool     `json:"zero_copy"`
	Depth       int      `json:"depth,omitempty"`       // operations outstanding; missing in older reports
	Entries     int      `json:"entries,omitempty"`     // memory entries of an operation, if more than one
	Connections int      `json:"connections,omitempty"` // number of connections, if more than one
	Streams     int      `json:"streams,omitempty"`     // streams of 1 MiB Writes beside the test, on other connections of the same adapters
	StreamGbps  float64  `json:"stream_gbps,omitempty"` // total rate of these streams
	Bulk        bool     `json:"bulk,omitempty"`        // the requester's adapter had a bulk path
	Told        bool     `json:"told,omitempty"`        // Intervals were reported, which allocates
	Direction   string   `json:"direction,omitempty"`   // DirectionForth or DirectionBack, if both were used at once
	Unpinned    bool     `json:"unpinned,omitempty"`    // both processes could use every core; otherwise each was pinned to one
	Encrypted   bool     `json:"encrypted,omitempty"`   // the connections used TLS
	Ops         uint64   `json:"ops"`
	Bytes       uint64   `json:"bytes"`
	Seconds     float64  `json:"seconds"`
	Gbps        float64  `json:"gbps"`
	Mops        float64  `json:"mops"`
	LatIs       string   `json:"lat_is,omitempty"` // HalfRoundTrip or WholeOp
	LatUS       *Latency `json:"lat_us,omitempty"`
	CPUUS       float64  `json:"cpu_us,omitempty"` // processor time of both processes per operation; missing in older reports
	// Processor time of each process in percent of one core: the requester's during the measurement, the responder's from start to
	// end. Missing in older reports.
	RequesterCPU float64 `json:"requester_cpu_percent,omitempty"`
	ResponderCPU float64 `json:"responder_cpu_percent,omitempty"`
	AllocsPerOp  float64 `json:"allocs_per_op"` // heap allocations of both sides
	Retransmits  uint64  `json:"retransmits"`   // retransmitted packets of both sides: the sum of Resent
	Resent       Resent  `json:"resent"`        // by cause; zero in older reports
	// Verified means that each operation moved its own bytes. Stamps in every kilobyte and at the end of each operation were
	// checked on arrival, and every byte of the last pass over memory at the end. Ping-pongs compare every byte of every message.
	Verified bool `json:"verified"`

	// Limits of the requester's connection during the measurement: shares of the time, by nd.LimitNames. Drops counts packets that
	// the requester's adapter dropped, by reason.
	Limited map[string]float64 `json:"limited,omitempty"`
	Drops   map[string]uint64  `json:"drops,omitempty"`
	PartsUS *Parts             `json:"parts_us,omitempty"` // missing without a sample, and in older reports
}

// setRate computes the rates from the counts.
func (r *Result) setRate() {
	r.Gbps, r.Mops = rates(r.Ops, r.Bytes, r.Seconds)
}

func rates(ops, bytes uint64, seconds float64) (gbps, mops float64) {
	if seconds <= 0 {
		return 0, 0
	}
	return float64(bytes) * 8 / seconds / 1e9, float64(ops) / seconds / 1e6
}

// Kinds of baseline.
const (
	KindRaw      = "raw"       // AF_XDP packets without a protocol, both sides polling
	KindTCP      = "tcp"       // package net, blocking
	KindTCPSpin  = "tcp_spin"  // non-blocking reads in a loop
	KindTCPBlock = "tcp_block" // blocking system calls on a thread, as in sockperf
	KindTCPTLS   = "tcp_tls"   // crypto/tls over package net, blocking
	KindNDPlain  = "nd_plain"  // package nd without encryption, for encrypted latency
)

// Baseline is the same measurement by other means. Test is the nd test to compare it with.
type Baseline struct {
	Kind     string   `json:"kind"`
	Test     Test     `json:"test"`
	Size     int      `json:"size"`
	MTU      int      `json:"mtu"`
	Datapath string   `json:"datapath,omitempty"` // of raw and nd_plain; missing in older reports
	Ops      uint64   `json:"ops"`
	Bytes    uint64   `json:"bytes"`
	Seconds  float64  `json:"seconds"`
	Gbps     float64  `json:"gbps"`
	Mops     float64  `json:"mops"`
	LatIs    string   `json:"lat_is,omitempty"`
	LatUS    *Latency `json:"lat_us,omitempty"`
	CPUUS    float64  `json:"cpu_us,omitempty"` // processor time of both processes per operation; only for TCP, missing in older reports
	Note     string   `json:"note,omitempty"`

	// Variant is the best variant, whose figures these are. Variants are all variants measured (Best). Both are missing in older
	// reports.
	Variant  string          `json:"variant,omitempty"`
	Variants []VariantFigure `json:"variants,omitempty"`
}

func (b *Baseline) setRate() {
	b.Gbps, b.Mops = rates(b.Ops, b.Bytes, b.Seconds)
}

// Ratio compares two figures of this run, or a figure with a fixed limit.
type Ratio struct {
	Name     string   `json:"name"`
	Test     Test     `json:"test"`
	Size     int      `json:"size"`
	MTU      int      `json:"mtu"`
	Datapath string   `json:"datapath,omitempty"` // of the result; missing in older reports
	Value    float64  `json:"value"`
	Bound    *float64 `json:"bound,omitempty"` // missing if there is no bound
	Floor    *float64 `json:"floor,omitempty"` // checked by validate; missing in older reports
	Want     string   `json:"want,omitempty"`  // "<=" or ">="
	OK       bool     `json:"ok"`
}

// Pair describes a veth pair. Its offloads affect the figures.
type Pair struct {
	For      string `json:"for"` // nd,raw or tcp
	MTU      int    `json:"mtu"`
	Offloads bool   `json:"offloads"` // segmentation, receive coalescing and checksums have the kernel's defaults
	Queues   int    `json:"queues"`
	RPSMask  string `json:"rps_mask"` // as in rps_cpus; empty: packets are received on the sender's core
}

// Report is the result of one run of ndperf.
type Report struct {
	Schema    string     `json:"schema"`
	Time      time.Time  `json:"time,omitzero"`     // beginning of the run; missing in older reports
	Command   string     `json:"command,omitempty"` // command line; missing in older reports
	Host      Host       `json:"host"`
	Latency   string     `json:"latency"` // explanation of lat_us
	Pairs     []Pair     `json:"pairs"`
	Results   []Result   `json:"results"`
	Baselines []Baseline `json:"baselines"`
	Ratios    []Ratio    `json:"ratios"`

	Connections   []ConnSide     `json:"connections,omitempty"`   // of ndperf conn: one for each side
	Registrations []Registration `json:"registrations,omitempty"` // of ndperf register
	Apps          []AppResult    `json:"apps,omitempty"`          // of ndperf apps
	Real          []RealResult   `json:"real,omitempty"`          // of bench/real
	Beside        int            `json:"beside,omitempty"`        // number of busy processes during the run
	Captures      []Captured     `json:"captures,omitempty"`      // if present, packets were copied during the run
	Incomplete    bool           `json:"incomplete,omitempty"`    // the run was interrupted or failed; the report has its results so far
}

// NewReport returns an empty report about this machine.
func NewReport() *Report {
	return &Report{
		Schema: Schema,
		Host:   CaptureHost(),
		Latency: "lat_us is half a round trip where lat_is says half_round_trip, " +
			"and the whole time from post to completion where it says operation",
		Pairs:     []Pair{},
		Results:   []Result{},
		Baselines: []Baseline{},
		Ratios:    []Ratio{},
	}
}

// Any reports whether a result or a baseline has a latency for which such returns true.
func (r *Report) Any(such func(*Latency) bool) bool {
	return slices.ContainsFunc(r.Results, func(x Result) bool { return such(x.LatUS) }) ||
		slices.ContainsFunc(r.Baselines, func(b Baseline) bool { return such(b.LatUS) })
}

// WriteJSON writes the report with indentation and a final newline.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// ReadReport parses the output of WriteJSON. An unknown field is an error, because it means another schema.
func ReadReport(rd io.Reader) (*Report, error) {
	dec := json.NewDecoder(rd)
	dec.DisallowUnknownFields()
	var r Report
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("not a %s report: %w", Schema, err)
	}
	return &r, nil
}

// Validate checks that the report is complete and, if floors is set, that every ratio meets its floor. It returns all violations,
// joined.
func (r *Report) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Schema != Schema {
		fail("schema is %q, want %q", r.Schema, Schema)
	}
	h := r.Host
	if h.Kernel == "" || h.CPU == "" || h.Cores < 1 || h.Go == "" || h.Commit == "" {
		fail("host is incomplete: %+v", h)
	}
	if len(r.Results)+len(r.Connections)+len(r.Apps)+len(r.Registrations)+len(r.Real) == 0 {
		fail("no results")
	}
	for _, x := range r.Connections {
		if err := x.sane(); err != nil {
			fail("connections of the %s: %w", x.Role, err)
		}
	}
	for i := range r.Registrations {
		if err := r.Registrations[i].sane(); err != nil {
			fail("registration: %w", err)
		}
	}
	for i := range r.Apps {
		if err := r.Apps[i].sane(); err != nil {
			fail("%s over %s: %w", r.Apps[i].Spec(), r.Apps[i].By(), err)
		}
	}
	for i := range r.Real {
		if err := r.Real[i].sane(); err != nil {
			fail("%s, MTU %d: %w", r.Real[i].Case, r.Real[i].MTU, err)
		}
	}
	for _, x := range r.Results {
		name := Spec{Test: x.Test, Size: x.Size, MTU: x.MTU}.String()
		if err := sane(x.Ops, x.Bytes, x.Seconds, x.Gbps, x.Mops, x.Test, x.LatUS); err != nil {
			fail("%s: %w", name, err)
		}
		if err := saneSize(x.Size, x.MTU); err != nil {
			fail("%s: %w", name, err)
		}
		if err := saneLimits(x.Limited, x.Drops); err != nil {
			fail("%s: %w", name, err)
		}
		if err := x.PartsUS.sane(); err != nil {
			fail("%s: %w", name, err)
		}
		if x.Datapath == "" {
			fail("%s: datapath is empty", name)
		}
		if !x.Verified {
			fail("%s: the bytes were not verified", name)
		}
	}
	for _, b := range r.Baselines {
		name := b.Kind + " " + Spec{Test: b.Test, Size: b.Size, MTU: b.MTU}.String()
		if err := sane(b.Ops, b.Bytes, b.Seconds, b.Gbps, b.Mops, b.Test, b.LatUS); err != nil {
			fail("%s: %w", name, err)
		}
		if err := saneSize(b.Size, b.MTU); err != nil {
			fail("%s: %w", name, err)
		}
	}
	return errors.Join(errs...)
}

// saneSize checks the parameters of a measurement. The MTU is zero for a link without an interface.
func saneSize(size, mtu int) error {
	if size < 1 || size > MaxSize || mtu < 0 || mtu > maxMTU {
		return fmt.Errorf("size %d or MTU %d is out of range: 1 to %d bytes, 0 to %d", size, mtu, MaxSize, maxMTU)
	}
	return nil
}

// maxMTU is the MTU of the loopback interface.
const maxMTU = 1 << 16

// sane checks that the figures of a measurement are consistent.
func sane(ops, bytes uint64, seconds, gbps, mops float64, t Test, lat *Latency) error {
	for _, v := range []float64{seconds, gbps, mops} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
			return fmt.Errorf("figures must be positive: %g s, %g Gb/s, %g Mop/s", seconds, gbps, mops)
		}
	}
	if ops == 0 || bytes == 0 {
		return fmt.Errorf("no data was transferred: %d operations, %d bytes", ops, bytes)
	}
	if t.IsLatency() {
		if lat == nil {
			return errors.New("lat_us is missing")
		}
		if lat.Min <= 0 || lat.P50 < lat.Min || lat.P90 < lat.P50 || lat.P99 < lat.P90 || lat.P999 < lat.P99 ||
			lat.Max < lat.P999 {
			return fmt.Errorf("the percentiles of lat_us are not in ascending order: %+v", *lat)
		}
		return saneDist(lat.Dist)
	}
	return nil
}
