package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// All variants of a rival run in turn, in several short rounds, and the variant with the best median counts. So a temporary
// slowdown of the machine affects some rounds of every variant, and a rival is not measured in a bad configuration.
const (
	rivalRounds = 3
	// rivalShare is the duration of a rival's round, relative to the test. With six or twelve variants, all rounds take about twice
	// as long as the test.
	rivalShare  = 8
	rivalLeast  = 10 * time.Millisecond
	streamBatch = 64 << 10 // default number of bytes that raw passes to the kernel at once
)

// RawOptions distinguish variants of raw streams, in addition to the datapath.
type RawOptions struct {
	Batch int  `json:"batch,omitempty"` // bytes passed to the kernel at once
	Refer bool `json:"refer,omitempty"` // payload is sent in place, as nd does from allocated memory, instead of copied
}

// referFrom is the payload of a packet from which raw may send in place. nd copies smaller payloads (provider.referMin).
const referFrom = 4096

// rawBatches returns the batch sizes to try, around the size of a core's first-level cache: from half to four times.
func rawBatches() []int { return []int{16 << 10, streamBatch, 256 << 10} }

// TCPRival is the kind of kernel TCP to compare with.
type TCPRival int

// Encrypted connections are compared with crypto/tls over TCP.
const (
	NoTCP TCPRival = iota
	PlainTCP
	EncryptedTCP
)

// Rivals returns the jobs of all variants and rounds of the rivals of specs: raw, kernel TCP or both. Variants are interleaved.
// Best selects from their results. Specs whose test has no rival are left out. The rivals of a Send to a sleeping receiver sleep,
// too: in Go's poller, and in a system call.
func Rivals(specs []Spec, raw bool, tcp TCPRival) (jobs []Job) {
	var streams, pings, asleep []Spec
	for _, s := range specs {
		s.Duration = max(s.Duration/rivalShare, rivalLeast)
		switch {
		case s.Test == WriteBW, s.Test == ReadBW, s.Test == SendBW:
			same := func(o Spec) bool { return o.Size == s.Size && o.MTU == s.MTU }
			if !slices.ContainsFunc(streams, same) { // all of them have the same rival
				s.Test = WriteBW
				streams = append(streams, s)
			}
		case s.Test == WriteLat:
			pings = append(pings, s)
		case s.Test == SendLat && s.Event:
			asleep = append(asleep, s)
		}
	}
	both := slices.Concat(pings, streams)
	if len(both)+len(asleep) == 0 {
		return nil
	}
	for range rivalRounds {
		if raw && len(both) > 0 {
			for _, d := range []nd.Datapath{nd.DatapathGeneric, nd.DatapathNative} {
				jobs = append(jobs, Job{Kind: KindRaw, Datapath: d.String(), Specs: slices.Concat(pings, rawVariants(streams))})
			}
		}
		if tcp != NoTCP {
			add := func(kind string, specs []Spec) {
				if len(specs) > 0 {
					jobs = append(jobs, Job{Kind: kind, Specs: specs}, Job{Kind: kind, Specs: specs, Unpinned: true})
				}
			}
			if tcp == EncryptedTCP {
				add(KindTCPTLS, both)
				continue
			}
			add(KindTCP, slices.Concat(both, asleep))
			add(KindTCPSpin, both)
			add(KindTCPBlock, asleep)
		}
	}
	return jobs
}

// rawVariants returns the variants of raw streams: each batch size, copied or in place where possible.
func rawVariants(streams []Spec) (all []Spec) {
	for _, s := range streams {
		for _, batch := range rawBatches() {
			s.Raw = RawOptions{Batch: batch}
			all = append(all, s)
			if rawRoom(s.MTU) >= referFrom {
				s.Raw.Refer = true
				all = append(all, s)
			}
		}
	}
	return all
}

// VariantFigure is the result of a rival's variant: the median and the number of its rounds.
type VariantFigure struct {
	Name   string  `json:"name"`
	P50US  float64 `json:"p50_us,omitempty"`
	Gbps   float64 `json:"gbps,omitempty"`
	Rounds int     `json:"rounds"`
}

// Best selects the best variant of each rival from the baselines of all rounds. For streams, it selects among raw and among all
// kinds of kernel TCP; for latency, among each kind. The round with the median represents the variant.
func Best(rounds []Baseline) (best []Baseline) {
	type rival struct {
		family    string
		test      Test
		size, mtu int
	}
	var order []rival
	byRival := map[rival][]Baseline{}
	for _, b := range rounds {
		r := rival{b.Kind, b.Test, b.Size, b.MTU}
		if b.LatUS == nil && b.Kind == KindTCPSpin {
			r.family = KindTCP
		}
		if byRival[r] == nil {
			order = append(order, r)
		}
		byRival[r] = append(byRival[r], b)
	}
	for _, r := range order {
		best = append(best, bestOf(byRival[r]))
	}
	return best
}

// bestOf returns the best variant of one rival.
func bestOf(rounds []Baseline) (best Baseline) {
	name := func(b *Baseline) string { return b.Kind + ", " + b.Variant }
	byVariant := map[string][]Baseline{}
	var order []string
	for i := range rounds {
		n := name(&rounds[i])
		if byVariant[n] == nil {
			order = append(order, n)
		}
		byVariant[n] = append(byVariant[n], rounds[i])
	}
	var figures []VariantFigure
	for i, n := range order {
		of := byVariant[n]
		slices.SortStableFunc(of, func(a, b Baseline) int { return cmp.Compare(a.goodness(), b.goodness()) })
		median := of[(len(of)-1)/2]
		f := VariantFigure{Name: n, Rounds: len(of), Gbps: median.Gbps}
		if median.LatUS != nil {
			f.P50US, f.Gbps = median.LatUS.P50, 0
		}
		figures = append(figures, f)
		if i == 0 || median.goodness() > best.goodness() {
			best = median
		}
	}
	best.Variants = figures
	return best
}

// goodness returns a value that is larger for better baselines.
func (b *Baseline) goodness() float64 {
	if b.LatUS != nil {
		return -b.LatUS.P50
	}
	return b.Gbps
}

// variantOf returns the name of a spec's rival variant in this job.
func (j Job) variantOf(s Spec, datapath string) string {
	if j.Kind != KindRaw {
		if j.Unpinned {
			return "unpinned"
		}
		return "pinned"
	}
	if s.Test.IsLatency() {
		return datapath
	}
	how := "copied"
	if s.Raw.Refer {
		how = "by reference"
	}
	return fmt.Sprintf("%s, batches of %s, %s", datapath, FormatSize(s.Raw.batch()), how)
}

func (o RawOptions) batch() int {
	if o.Batch == 0 {
		return streamBatch
	}
	return o.Batch
}
