package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Test is the name of a measurement, as in perftest.
type Test string

// The first word of a test's name is the operation, the second what is measured.
const (
	WriteLat  Test = "write_lat"
	ReadLat   Test = "read_lat"
	SendLat   Test = "send_lat"
	WriteBW   Test = "write_bw"
	ReadBW    Test = "read_bw"
	SendBW    Test = "send_bw"
	WriteRate Test = "write_rate"
)

// Tests lists every test in the order of runs and of tables.
func Tests() []Test {
	return []Test{WriteLat, ReadLat, SendLat, WriteBW, ReadBW, SendBW, WriteRate}
}

// IsLatency reports whether the test measures latency, one operation at a time.
func (t Test) IsLatency() bool { return t == WriteLat || t == ReadLat || t == SendLat }

// IsRate reports whether the test measures the rate of small operations.
func (t Test) IsRate() bool { return t == WriteRate }

// usesSend reports whether the test uses receives of the responder.
func (t Test) usesSend() bool { return t == SendLat || t == SendBW }

// Modes of a Result.
const (
	ModePoll  = "poll"  // GetResults in a loop
	ModeEvent = "event" // Notify, then GetResults
)

// Defaults and limits of a Spec.
const (
	DefaultLatSize  = 64      // the usual size for RDMA latency
	DefaultBWSize   = 1 << 20 // large enough to hide the cost per message
	DefaultRateSize = 64
	DefaultListSize = 32              // requests posted together in write_rate
	DefaultDuration = 2 * time.Second // per test; enough for a stable p99.9 of a round trip of 5 µs
	MaxSize         = 1 << 30

	// maxSpecMemory is the memory of a ping-pong of the largest size. A server allocates it for any client.
	maxSpecMemory = 2 * answeredSlots * MaxSize
	answeredSlots = 4

	// bwWorkingSet is the memory that streams cycle through, at every message size, and for raw and kernel TCP alike. It exceeds a
	// core's private caches, so that no transport has an advantage, and fits into a shared L3 cache, so that memory bandwidth is
	// not measured.
	bwWorkingSet = 4 << 20
	// rateSlots is the number of slots of a rate test per outstanding operation. Rates have no rival and are about operations
	// rather than memory, so the slots fit into a core's cache. They are enough that markers and credits (flow) cause no wait.
	rateSlots = 4
	// latSlots is the number of slots of one-sided latency. They fit into a core's cache, and are so many that the marker and
	// credit of each pass (flow) do not affect the 99th percentile.
	latSlots = 256
	maxDepth = 64
	// MaxEntries is the largest number of memory entries of an operation.
	MaxEntries = 16
	// minSlots is the least number of slots with which the source of an operation can be reused when the operation is complete,
	// with two outstanding operations: slotPair.
	minSlots = 3
	// rateLists is the number of outstanding lists of write_rate.
	rateLists = 16
)

// Spec describes one measurement.
type Spec struct {
	Test     Test          `json:"test"`
	Size     int           `json:"size"`              // bytes per message
	MTU      int           `json:"mtu"`               // link MTU, for the report
	Duration time.Duration `json:"duration"`          // of the measured part, in nanoseconds
	Event    bool          `json:"event"`             // wait for completions in Notify instead of polling
	Verify   bool          `json:"verify"`            // check every operation (stamp), and every byte at the end
	ListSize int           `json:"list_size"`         // write_rate: requests per list
	Depth    int           `json:"depth"`             // operations outstanding
	Entries  int           `json:"entries,omitempty"` // memory entries that an operation gathers or scatters; 0 is 1
	Raw      RawOptions    `json:"raw,omitzero"`
}

// WithDefaults replaces zero fields by their defaults.
func (s Spec) WithDefaults() Spec {
	if s.Size == 0 {
		s.Size = s.Test.defaultSize()
	}
	if s.Duration == 0 {
		s.Duration = DefaultDuration
	}
	if s.ListSize == 0 {
		s.ListSize = 1
		if s.Test.IsRate() {
			s.ListSize = DefaultListSize
		}
	}
	if s.Depth == 0 {
		switch {
		case s.Test.IsLatency():
			s.Depth = 1
		case s.Test.IsRate():
			s.Depth = min(s.ListSize*rateLists, s.slots()-1)
		default:
			s.Depth = min(s.slots()-1, maxDepth)
		}
	}
	return s
}

func (t Test) defaultSize() int {
	switch {
	case t.IsLatency():
		return DefaultLatSize
	case t.IsRate():
		return DefaultRateSize
	default:
		return DefaultBWSize
	}
}

// Validate returns an error for the first invalid field.
func (s Spec) Validate() error {
	switch {
	case !slices.Contains(Tests(), s.Test):
		return fmt.Errorf("test %q is unknown: choose from %s", s.Test, joinTests())
	case s.Size < 1 || s.Size > MaxSize:
		return fmt.Errorf("%s: size %d is out of range: 1 to %d bytes", s.Test, s.Size, MaxSize)
	case s.Duration < time.Millisecond || s.Duration > time.Hour:
		return fmt.Errorf("%s: duration %v is out of range: 1ms to 1h", s.Test, s.Duration)
	case s.Depth < 1 || s.Depth > min(maxSpecDepth, s.slots()-1):
		return fmt.Errorf("%s: depth %d is out of range: 1 to %d with messages of %s", s.Test, s.Depth, min(maxSpecDepth, s.slots()-1), FormatSize(s.Size))
	case s.ListSize < 1 || s.ListSize > s.Depth:
		return fmt.Errorf("%s: list size %d is out of range: 1 to the depth, %d", s.Test, s.ListSize, s.Depth)
	case s.Entries < 0 || s.Entries > MaxEntries || s.Entries > s.Size:
		return fmt.Errorf("%s: %d entries are out of range: 1 to %d, of at least a byte each", s.Test, s.Entries, MaxEntries)
	case s.memory() > maxSpecMemory:
		return fmt.Errorf("%s: size %s in lists of %d takes %d GiB of memory, the limit is %d: choose a smaller size or list size",
			s.Test, FormatSize(s.Size), s.ListSize, s.memory()>>30, int64(maxSpecMemory)>>30)
	}
	return nil
}

// String describes the spec in progress lines and errors.
func (s Spec) String() string {
	if s.MTU == 0 {
		return fmt.Sprintf("%s %s", s.Test, FormatSize(s.Size))
	}
	return fmt.Sprintf("%s %s mtu %d", s.Test, FormatSize(s.Size), s.MTU)
}

// slots returns the number of message buffers that each side cycles through.
func (s Spec) slots() int {
	if s.answered() {
		return answeredSlots
	}
	n := bwWorkingSet / s.Size
	switch {
	case s.Test.IsLatency():
		n = min(n, latSlots)
	case s.Test.IsRate():
		n = min(n, rateSlots*rateLists*s.ListSize)
	}
	return max(n, minSlots, 2*s.ListSize)
}

// memory returns the bytes of each side's message buffers, for sending and receiving.
func (s Spec) memory() int64 { return 2 * int64(s.slots()) * int64(s.Size) }

// receives returns the number of receives that the responder keeps posted for messages: twice the largest number of messages in
// flight. Each has a slot of its own, so that no message overwrites an unchecked one.
func (s Spec) receives() int {
	if s.answered() {
		return s.slots()
	}
	return min(s.slots(), 2*max(s.Depth, s.ListSize))
}

// slotPair returns the source and destination slot of operation k. The source is shifted by one in every pass. So each pass writes
// another pattern into each destination, bytes of an earlier pass are detected, and the final contents depend only on the number of
// operations. If fewer than slots operations are outstanding, the source of the next one may be overwritten, because earlier
// operations with this source are complete.
func slotPair(k uint64, slots int) (src, dst int) {
	n := uint64(slots)
	pass := k / n
	at := k - pass*n
	return int((at + pass) % n), int(at)
}

// walk iterates over the operations in order. It increments counters in place of the divisions of slotPair and stampOf.
type walk struct {
	k, pass  uint64
	src, dst int
}

// next goes to the next operation.
func (w *walk) next(slots int) {
	w.k++
	w.dst++
	if w.src++; w.src == slots {
		w.src = 0
	}
	if w.dst == slots {
		w.dst = 0
		w.pass++
		w.src = int(w.pass % uint64(slots))
	}
}

// lastInto returns the last of ops operations that wrote into slot dst. ok is false if none did.
func lastInto(ops uint64, dst, slots int) (k uint64, ok bool) {
	n := uint64(slots)
	if ops <= uint64(dst) {
		return 0, false
	}
	return (ops-1-uint64(dst))/n*n + uint64(dst), true
}

// Plan combines tests and sizes into specs. Without sizes, each test has its default size.
func Plan(tests []Test, sizes []int, base Spec) ([]Spec, error) {
	if len(tests) == 0 {
		return nil, errors.New("no test was named: choose from " + joinTests())
	}
	var specs []Spec
	for _, t := range tests {
		perTest := sizes
		if len(perTest) == 0 {
			perTest = []int{t.defaultSize()}
		}
		for _, size := range perTest {
			s := base
			s.Test, s.Size = t, size
			if t.IsLatency() { // one operation at a time
				s.Depth, s.ListSize = 0, 0
			}
			s = s.WithDefaults()
			if err := s.Validate(); err != nil {
				return nil, err
			}
			specs = append(specs, s)
		}
	}
	return specs, nil
}

func joinTests() string {
	names := make([]string, 0, len(Tests()))
	for _, t := range Tests() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// FormatSize formats a byte count: 64 B, 4 KiB, 1 MiB.
func FormatSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d B", n)
	}
}
