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

// IsLatency tells whether the test measures latency, one operation at a time.
func (t Test) IsLatency() bool { return t == WriteLat || t == ReadLat || t == SendLat }

// IsRate tells whether the test measures small operations a second.
func (t Test) IsRate() bool { return t == WriteRate }

// usesSend tells whether the test consumes receives at the responder.
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

	// bwWorkingSet is how many bytes are in flight or about to be: enough to keep any veth pair or 10G path full, small
	// enough to stay in a shared L3 cache, so that memory bandwidth is not what gets measured. The raw ceiling cycles
	// through as much.
	bwWorkingSet = 4 << 20
	maxDepth     = 64
	// rateLists is how many lists write_rate keeps outstanding.
	rateLists = 16
)

// Spec describes one measurement.
type Spec struct {
	Test     Test          `json:"test"`
	Size     int           `json:"size"`      // bytes per message
	MTU      int           `json:"mtu"`       // link MTU, for the report
	Duration time.Duration `json:"duration"`  // of the measured part, in nanoseconds
	Event    bool          `json:"event"`     // wait for completions by Notify instead of polling
	Verify   bool          `json:"verify"`    // check every byte at the end
	ListSize int           `json:"list_size"` // write_rate: requests per list
	Depth    int           `json:"depth"`     // operations outstanding
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
			s.Depth = s.ListSize * rateLists
		default:
			s.Depth = min(max(bwWorkingSet/s.Size, 2), maxDepth)
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
	case s.Depth < 1 || s.Depth > maxSpecDepth:
		return fmt.Errorf("%s: depth %d is out of range: 1 to %d", s.Test, s.Depth, maxSpecDepth)
	case s.ListSize < 1 || s.ListSize > s.Depth:
		return fmt.Errorf("%s: list size %d is out of range: 1 to the depth, %d", s.Test, s.ListSize, s.Depth)
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

// slots is how many message buffers each side of a bandwidth or rate test cycles through. At least two, so that the
// rotation of verified patterns (see slotPair) brings different bytes to the same place in successive passes.
func (s Spec) slots() int {
	if s.answered() {
		return 4
	}
	return max(s.Depth, 2)
}

// receives is how many receives the responder keeps posted. A Send needs one, so a bandwidth test keeps twice as many as can
// be on their way; two of them share a slot, so that Sends go through as much memory as Writes do and the caches treat
// both alike.
func (s Spec) receives() int {
	if s.Test == SendBW {
		return 2 * s.slots()
	}
	return s.slots()
}

// slotPair maps operation k to its source and destination slot. The source is shifted by one in every pass: each pass
// overwrites each destination with another pattern, so bytes left over from an earlier pass never look right, and the
// final content of every slot follows from the number of operations alone.
func slotPair(k uint64, slots int) (src, dst int) {
	n := uint64(slots)
	return int((k + k/n) % n), int(k % n)
}

// lastSource returns which source slot the destination slot dst holds after ops operations; ok is false if none yet.
func lastSource(ops uint64, dst, slots int) (src int, ok bool) {
	n := uint64(slots)
	if ops <= uint64(dst) {
		return 0, false
	}
	k := (ops-1-uint64(dst))/n*n + uint64(dst)
	src, _ = slotPair(k, slots)
	return src, true
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
