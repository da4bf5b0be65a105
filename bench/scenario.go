package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Test names one measurement, in perftest's words.
type Test string

// The tests. The first word is the operation that moves data, the second what is measured.
const (
	WriteLat  Test = "write_lat"
	ReadLat   Test = "read_lat"
	SendLat   Test = "send_lat"
	WriteBW   Test = "write_bw"
	ReadBW    Test = "read_bw"
	SendBW    Test = "send_bw"
	WriteRate Test = "write_rate"
)

// Tests lists every test in the order in which they run and are printed.
func Tests() []Test {
	return []Test{WriteLat, ReadLat, SendLat, WriteBW, ReadBW, SendBW, WriteRate}
}

// IsLatency reports whether the test measures latency, one operation at a time.
func (t Test) IsLatency() bool { return t == WriteLat || t == ReadLat || t == SendLat }

// IsRate reports whether the test measures small operations a second.
func (t Test) IsRate() bool { return t == WriteRate }

// usesSend reports whether the test consumes receives at the responder.
func (t Test) usesSend() bool { return t == SendLat || t == SendBW }

// Modes of a Result.
const (
	ModePoll  = "poll"  // GetResults in a loop
	ModeEvent = "event" // Notify, then GetResults
)

// Default and extreme values of a Spec.
const (
	DefaultLatSize  = 64      // the size in which RDMA latency is usually quoted
	DefaultBWSize   = 1 << 20 // large enough that per-message costs vanish
	DefaultRateSize = 64
	DefaultListSize = 32              // requests posted together in write_rate
	DefaultDuration = 2 * time.Second // per test; long enough for a stable p99.9 of a 5 µs round trip
	MaxSize         = 1 << 30

	// maxSpecMemory is what a ping-pong of the greatest size takes. A server makes this memory for anybody who asks.
	maxSpecMemory = 2 * answeredSlots * MaxSize
	answeredSlots = 4

	// bwWorkingSet is how many bytes streams cycle through, at every message size, and so do raw and kernel TCP: more
	// than a core's own caches hold, so that nobody finds its data nearer than others, and small enough to stay in a shared
	// L3 cache, so that memory bandwidth is not what gets measured.
	bwWorkingSet = 4 << 20
	// rateSlots times the depth of a rate are its slots: no rival has a rate, and it is about operations and not about memory, so
	// these stay in a core's cache, and are enough for markers and credits (flow) to hold nobody up.
	rateSlots = 4
	// latSlots is how many slots one-sided latency goes through: few enough to stay in a core's cache, and enough that the marker
	// and credit of each pass (flow) do not show in the 99th percentile.
	latSlots = 256
	maxDepth = 64
	// MaxEntries is how many pieces of memory an operation may have here.
	MaxEntries = 16
	// minSlots, with two outstanding operations, lets the source of an operation be reused when the operation is complete:
	// slotPair.
	minSlots = 3
	// rateLists is how many lists write_rate keeps outstanding.
	rateLists = 16
)

// Spec describes one measurement.
type Spec struct {
	Test     Test          `json:"test"`
	Size     int           `json:"size"`              // bytes per message
	MTU      int           `json:"mtu"`               // link MTU, for the report
	Duration time.Duration `json:"duration"`          // of the measured part, in nanoseconds
	Event    bool          `json:"event"`             // wait for completions by Notify instead of polling
	Verify   bool          `json:"verify"`            // check every operation (stamp), and every byte at the end
	ListSize int           `json:"list_size"`         // write_rate: requests per list
	Depth    int           `json:"depth"`             // operations outstanding
	Entries  int           `json:"entries,omitempty"` // pieces of memory that an operation gathers or scatters; 0 is 1
	Raw      RawOptions    `json:"raw,omitzero"`
}

// WithDefaults fills the zero fields.
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

// Validate reports the first field that makes no sense, by name.
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

// String names the spec in progress lines and errors.
func (s Spec) String() string {
	if s.MTU == 0 {
		return fmt.Sprintf("%s %s", s.Test, FormatSize(s.Size))
	}
	return fmt.Sprintf("%s %s mtu %d", s.Test, FormatSize(s.Size), s.MTU)
}

// slots returns how many message buffers each side cycles through.
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

// memory returns how many bytes of messages each side keeps: what it sends, and what it receives.
func (s Spec) memory() int64 { return 2 * int64(s.slots()) * int64(s.Size) }

// receives returns how many receives the responder keeps posted for messages: twice as many as can be on their way, each with a slot of
// its own, so that no message lands where one is that was not checked.
func (s Spec) receives() int {
	if s.answered() {
		return s.slots()
	}
	return min(s.slots(), 2*max(s.Depth, s.ListSize))
}

// slotPair maps operation k to its source and destination slot. The source is shifted by one in every pass: each pass
// overwrites each destination with another pattern, so bytes left over from an earlier pass never look right, and the
// final content of every slot follows from the number of operations alone. Whoever keeps fewer than slots operations outstanding
// may write to the source of the next one: those that had it before are complete.
func slotPair(k uint64, slots int) (src, dst int) {
	n := uint64(slots)
	pass := k / n
	at := k - pass*n
	return int((at + pass) % n), int(at)
}

// walk goes through the operations in order: slotPair and stampOf divide, walk counts.
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

// lastInto returns which of ops operations was the last one into slot dst; ok is false if there was none.
func lastInto(ops uint64, dst, slots int) (k uint64, ok bool) {
	n := uint64(slots)
	if ops <= uint64(dst) {
		return 0, false
	}
	return (ops-1-uint64(dst))/n*n + uint64(dst), true
}

// Plan expands tests and sizes into specs; no size means each test's own default.
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

// FormatSize prints a byte count the way people write it: 64 B, 4 KiB, 1 MiB.
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
