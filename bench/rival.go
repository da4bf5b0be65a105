package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// A rival runs in all of its variants, in turn, in several short rounds, and the variant with the best median counts. A machine that is
// slow for a moment then affects some rounds of every variant, and a rival does not lose because it was used badly.
const (
	rivalRounds = 3
	// rivalShare of a test's duration is a round of a variant of its rival: with six or twelve variants they take about twice as
	// long together as the test.
	rivalShare  = 8
	rivalLeast  = 10 * time.Millisecond
	streamBatch = 64 << 10 // bytes that raw hands to the kernel at once, if not told otherwise
)

// RawOptions are what variants of raw streams differ in, beside the datapath.
type RawOptions struct {
	Batch int  `json:"batch,omitempty"` // bytes handed to the kernel at once
	Refer bool `json:"refer,omitempty"` // payload leaves from where it is, as nd's does from allocated memory, and is not copied
}

// referFrom is the payload of a packet from which on raw may leave it where it is: nd copies less (provider.referMin).
const referFrom = 4096

// rawBatches returns the batches tried: half and four times what a core's first cache holds, and between.
func rawBatches() []int { return []int{16 << 10, streamBatch, 256 << 10} }

// Rivals are the jobs of all variants and rounds of the rivals of specs: raw, kernel TCP or both. They are interleaved. Best picks from
// their results. Specs whose test has no rival are left out. A Send with a sleeping receiver has rivals with a sleeping receiver: in the
// poller of Go, and in a system call.
func Rivals(specs []Spec, raw, tcp bool) (jobs []Job) {
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
		if tcp {
			add := func(kind string, specs []Spec) {
				if len(specs) > 0 {
					jobs = append(jobs, Job{Kind: kind, Specs: specs}, Job{Kind: kind, Specs: specs, Unpinned: true})
				}
			}
			add(KindTCP, slices.Concat(both, asleep))
			add(KindTCPSpin, both)
			add(KindTCPBlock, asleep)
		}
	}
	return jobs
}

// rawVariants are the streams in every batch, and copied or not where that is a choice.
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

// VariantFigure is what a variant of a rival came to: the median of its rounds, and how many there were.
type VariantFigure struct {
	Name   string  `json:"name"`
	P50US  float64 `json:"p50_us,omitempty"`
	Gbps   float64 `json:"gbps,omitempty"`
	Rounds int     `json:"rounds"`
}

// Best picks the best variant of each rival from the baselines of all rounds: of raw and of kernel TCP for streams, where it does not
// matter how TCP is read, and of each kind for latency. The round with its median represents it.
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

// bestOf picks the best variant of one rival.
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

// goodness grows with what makes a baseline better.
func (b *Baseline) goodness() float64 {
	if b.LatUS != nil {
		return -b.LatUS.P50
	}
	return b.Gbps
}

// variantOf names the variant of a rival that a spec of this job is.
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
