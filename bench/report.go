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

// Schema names the JSON form of a Report. It changes when a field changes its meaning or goes away.
const Schema = "ndperf/1"

// The values of Latency: the interval that a latency covers.
const (
	HalfRoundTrip = "half_round_trip" // there and back between two applications, divided by two
	WholeOp       = "operation"       // from posting a request to its completion
)

// Result is one measurement over package nd.
type Result struct {
	Test        Test     `json:"test"`
	Size        int      `json:"size"`
	MTU         int      `json:"mtu"`
	Mode        string   `json:"mode"` // poll or event
	Datapath    string   `json:"datapath"`
	Why         string   `json:"datapath_reason,omitempty"` // of the requester's; older reports do not say it
	ZeroCopy    bool     `json:"zero_copy"`
	BusyPoll    bool     `json:"busy_poll,omitempty"`   // pollers ran the driver
	Depth       int      `json:"depth,omitempty"`       // operations outstanding; older reports do not say it
	Entries     int      `json:"entries,omitempty"`     // pieces of memory of an operation, if more than one
	Connections int      `json:"connections,omitempty"` // at once, if more than one
	Streams     int      `json:"streams,omitempty"`     // of 1 MiB Writes on other connections of the same adapters meanwhile
	StreamGbps  float64  `json:"stream_gbps,omitempty"` // that they moved, together
	Bulk        bool     `json:"bulk,omitempty"`        // the requester's adapter had a bulk lane
	Told        bool     `json:"told,omitempty"`        // there were Intervals, which allocate
	Direction   string   `json:"direction,omitempty"`   // DirectionForth or DirectionBack, when both were used at once
	Unpinned    bool     `json:"unpinned,omitempty"`    // both processes could use every core; else each had one
	Ops         uint64   `json:"ops"`
	Bytes       uint64   `json:"bytes"`
	Seconds     float64  `json:"seconds"`
	Gbps        float64  `json:"gbps"`
	Mops        float64  `json:"mops"`
	LatIs       string   `json:"lat_is,omitempty"` // HalfRoundTrip or WholeOp
	LatUS       *Latency `json:"lat_us,omitempty"`
	CPUUS       float64  `json:"cpu_us,omitempty"` // processor time of both processes for an operation; older reports have none
	// Processor time of each process, in percent of one core: the requester's while it measured, the responder's from start to end. Older reports have none.
	RequesterCPU float64 `json:"requester_cpu_percent,omitempty"`
	ResponderCPU float64 `json:"responder_cpu_percent,omitempty"`
	AllocsPerOp  float64 `json:"allocs_per_op"` // heap allocations of both sides
	Retransmits  uint64  `json:"retransmits"`   // packets sent again, of both sides: the sum of Resent
	Resent       Resent  `json:"resent"`        // why; zero in older reports
	// Verified: each operation moved its own bytes. Stamps in every kilobyte and at the end of each were checked as it arrived, and
	// every byte of the last pass over memory at the end; ping-pongs compare every byte of every message.
	Verified bool `json:"verified"`

	// Why the requester's connection did not send more while it was measured: the share of that time by nd.LimitNames. Drops counts
	// packets that the requester's adapter did not use, by reason.
	Limited map[string]float64 `json:"limited,omitempty"`
	Drops   map[string]uint64  `json:"drops,omitempty"`
	PartsUS *Parts             `json:"parts_us,omitempty"` // absent without a sample, and in older reports
}

// setRate derives the rates from what was counted.
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
	KindRaw      = "raw"       // AF_XDP packets without a protocol, both sides spinning
	KindTCP      = "tcp"       // package net, blocking
	KindTCPSpin  = "tcp_spin"  // non-blocking reads in a loop
	KindTCPBlock = "tcp_block" // blocking system calls on a thread, as sockperf makes them
)

// Baseline is the same movement of data by other means. Test names the nd test it stands beside.
type Baseline struct {
	Kind     string   `json:"kind"`
	Test     Test     `json:"test"`
	Size     int      `json:"size"`
	MTU      int      `json:"mtu"`
	Datapath string   `json:"datapath,omitempty"` // of raw; older reports do not say it
	Ops      uint64   `json:"ops"`
	Bytes    uint64   `json:"bytes"`
	Seconds  float64  `json:"seconds"`
	Gbps     float64  `json:"gbps"`
	Mops     float64  `json:"mops"`
	LatIs    string   `json:"lat_is,omitempty"`
	LatUS    *Latency `json:"lat_us,omitempty"`
	CPUUS    float64  `json:"cpu_us,omitempty"` // processor time of both processes for an operation; of TCP, and none in older reports
	Note     string   `json:"note,omitempty"`

	// Variant is the best one, which the figures are of, and Variants are all that were tried (Best). Older reports have neither.
	Variant  string          `json:"variant,omitempty"`
	Variants []VariantFigure `json:"variants,omitempty"`
}

func (b *Baseline) setRate() {
	b.Gbps, b.Mops = rates(b.Ops, b.Bytes, b.Seconds)
}

// Ratio compares two figures of this run, or one figure with a fixed floor.
type Ratio struct {
	Name     string   `json:"name"`
	Test     Test     `json:"test"`
	Size     int      `json:"size"`
	MTU      int      `json:"mtu"`
	Datapath string   `json:"datapath,omitempty"` // of the result; older reports do not say it
	Value    float64  `json:"value"`
	Bound    *float64 `json:"bound,omitempty"` // absent: for information
	Floor    *float64 `json:"floor,omitempty"` // what validate asks for; absent in older reports
	Want     string   `json:"want,omitempty"`  // "<=" or ">="
	OK       bool     `json:"ok"`
}

// Pair states how one veth pair was set up, because offloads decide what its figures mean.
type Pair struct {
	For      string `json:"for"` // nd,raw or tcp
	MTU      int    `json:"mtu"`
	Offloads bool   `json:"offloads"` // segmentation, receive coalescing and checksums left to the kernel's choice
	Queues   int    `json:"queues"`
	RPSMask  string `json:"rps_mask"` // as in rps_cpus; empty: packets are received on the sender's core
}

// Report is everything one run of ndperf found out.
type Report struct {
	Schema    string     `json:"schema"`
	Time      time.Time  `json:"time,omitzero"`     // when the run began; older reports do not say it
	Command   string     `json:"command,omitempty"` // that was run; older reports do not say it
	Host      Host       `json:"host"`
	Latency   string     `json:"latency"` // how to read lat_us, in words
	Pairs     []Pair     `json:"pairs"`
	Results   []Result   `json:"results"`
	Baselines []Baseline `json:"baselines"`
	Ratios    []Ratio    `json:"ratios"`

	Connections   []ConnSide     `json:"connections,omitempty"`   // of ndperf conn: one side each
	Registrations []Registration `json:"registrations,omitempty"` // of ndperf register
	Apps          []AppResult    `json:"apps,omitempty"`          // of ndperf apps
	Real          []RealResult   `json:"real,omitempty"`          // of bench/real
	Beside        int            `json:"beside,omitempty"`        // processes that kept cores busy all the time
	Captures      []Captured     `json:"captures,omitempty"`      // present: figures are those of a run whose packets were copied
	Incomplete    bool           `json:"incomplete,omitempty"`    // the run was interrupted, or failed: these are the figures that it had by then
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

// ReadReport parses what WriteJSON wrote; unknown fields are an error, because they mean another schema.
func ReadReport(rd io.Reader) (*Report, error) {
	dec := json.NewDecoder(rd)
	dec.DisallowUnknownFields()
	var r Report
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("not a %s report: %w", Schema, err)
	}
	return &r, nil
}

// Validate checks that the report is complete and, if floors is set, that every bounded ratio holds. It returns every
// violation, joined.
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

// saneSize checks what a measurement was made with. The MTU of a link whose interface has none is zero.
func saneSize(size, mtu int) error {
	if size < 1 || size > MaxSize || mtu < 0 || mtu > maxMTU {
		return fmt.Errorf("size %d or MTU %d is out of range: 1 to %d bytes, 0 to %d", size, mtu, MaxSize, maxMTU)
	}
	return nil
}

// maxMTU is the loopback interface's.
const maxMTU = 1 << 16

// sane checks one measurement's figures against each other.
func sane(ops, bytes uint64, seconds, gbps, mops float64, t Test, lat *Latency) error {
	for _, v := range []float64{seconds, gbps, mops} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
			return fmt.Errorf("figures must be positive: %g s, %g Gb/s, %g Mop/s", seconds, gbps, mops)
		}
	}
	if ops == 0 || bytes == 0 {
		return fmt.Errorf("nothing was moved: %d operations, %d bytes", ops, bytes)
	}
	if t.IsLatency() {
		if lat == nil {
			return errors.New("lat_us is missing")
		}
		if lat.Min <= 0 || lat.P50 < lat.Min || lat.P90 < lat.P50 || lat.P99 < lat.P90 || lat.P999 < lat.P99 ||
			lat.Max < lat.P999 {
			return fmt.Errorf("lat_us is not in order: %+v", *lat)
		}
		return saneDist(lat.Dist)
	}
	return nil
}
