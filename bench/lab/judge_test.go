package lab

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var floors = flag.Bool("lab.floors", false, "judge figures by their floors, which only something broken misses, instead of by their bounds")

// keepTheCores puts this process into a scheduling group of its own with the highest weight, or raises the priority of its threads if the
// kernel has no groups. So the figures depend on the transport, and less on other programs of the machine. Without the privilege, it
// changes nothing.
var keepTheCores = sync.OnceFunc(func() {
	_, _ = unix.Setsid() // fails if this process leads a group already, which has the same effect
	_ = os.WriteFile("/proc/self/autogroup", []byte("-20"), 0)
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads { // later threads inherit the priority
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, -20)
		}
	}
})

// figure is a value that a scenario measures in every round, and the bound for its median.
type figure struct {
	unit         string // unit as in benchmarks, unique within a scenario
	least        bool   // bound and floor are minimums, not maximums
	bound, floor float64
	rounds       []float64
}

// figures are the figures of a scenario, in the order in which it added them.
type figures []*figure

func (f *figures) add(now figure, value float64) {
	i := slices.IndexFunc(*f, func(known *figure) bool { return known.unit == now.unit })
	if i < 0 {
		i = len(*f)
		*f = append(*f, &now)
	}
	(*f)[i].rounds = append((*f)[i].rounds, value)
}

// atLeast adds a round's value of a figure for which large values are good.
func (f *figures) atLeast(unit string, value, bound, floor float64) {
	f.add(figure{unit: unit, least: true, bound: bound, floor: floor}, value)
}

// atMost adds a round's value of a figure for which small values are good.
func (f *figures) atMost(unit string, value, bound, floor float64) {
	f.add(figure{unit: unit, bound: bound, floor: floor}, value)
}

// median returns the median of all rounds, or the larger of the two middle values.
func (f *figure) median() float64 { return slices.Sorted(slices.Values(f.rounds))[len(f.rounds)/2] }

// judged returns the median, the bound or floor that it is compared with, and whether it is met.
func (f *figure) judged(byFloor bool) (median, want float64, met bool) {
	median, want = f.median(), f.bound
	if byFloor {
		want = f.floor
	}
	return median, want, median == want || f.least == (median > want)
}

// distribution returns a row that shows how far from its floor a figure stays.
func (f *figure) distribution() string {
	sorted, want := slices.Sorted(slices.Values(f.rounds)), "<="
	if f.least {
		want = ">="
	}
	last := len(sorted) - 1
	return fmt.Sprintf("| %s | %d | %.4g | %.4g | %.4g | %.4g | %.4g | %s %.4g | %.4g |", f.unit, len(sorted),
		sorted[0], sorted[last/4], f.median(), sorted[last-last/4], sorted[last], want, f.bound, f.floor)
}

// judge measures a scenario in every round of a benchmark, and compares the median of each figure with its bound. So a single disturbed
// or lucky round decides nothing. The scenario itself checks what must hold in every round, such as the status of requests.
func judge(b *testing.B, scenario func(*figures)) {
	b.Helper()
	keepTheCores()
	var all figures
	for b.Loop() {
		scenario(&all)
	}
	b.ReportMetric(0, "ns/op") // the duration of a round is no figure
	for _, f := range all {
		median, want, met := f.judged(*floors)
		b.ReportMetric(median, f.unit)
		b.Log(f.distribution())
		if !met {
			b.Errorf("%s: the median is %.4g, want %.4g or better; rounds %.4g", f.unit, median, want, f.rounds)
		}
	}
}

// The median is compared with bounds or with floors.
func TestMediansAreJudged(t *testing.T) {
	var f figures
	for _, v := range []float64{9, 1, 1} {
		f.atLeast("least", v, 8, 1)
		f.atMost("most", 10-v, 2, 9)
	}
	for _, fig := range f {
		if _, _, met := fig.judged(false); met {
			t.Errorf("%s: one good round of three met the bound", fig.unit)
		}
		if _, _, met := fig.judged(true); !met {
			t.Errorf("%s: the median is the floor, and missed it", fig.unit)
		}
	}
	if got, want := f[0].distribution(), "| least | 3 | 1 | 1 | 1 | 9 | 9 | >= 8 | 1 |"; got != want {
		t.Errorf("the distribution is %s, want %s", got, want)
	}
}

// settle is the time in which flows find their windows.
const settle = 200 * time.Millisecond

// sampleEvery is the interval between two samples of the queue.
const sampleEvery = 200 * time.Microsecond

// watchQueue returns how long a packet that arrived at the bottleneck would have waited, sampled for d and sorted. The wait is the bytes
// in the queue, as the kernel counts them, divided by the rate.
func (r *rig) watchQueue(t testing.TB, d time.Duration) []time.Duration {
	t.Helper()
	var waits []time.Duration
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		b, err := r.star.Backlog(0)
		must(t, err)
		waits = append(waits, time.Duration(b.Bytes)*time.Second/time.Duration(r.bottleneck.BytesPerSec))
	}
	slices.Sort(waits)
	return waits
}

// quantile returns a quantile of sorted values, in thousandths.
func quantile(sorted []time.Duration, thousandths int) time.Duration {
	return sorted[(len(sorted)-1)*thousandths/1000]
}

// over returns how often one time fits into another.
func over(d, unit time.Duration) float64 { return float64(d) / float64(unit) }

// mbits returns bytes in a time as Mb/s.
func mbits(bytes float64, in time.Duration) float64 { return bytes * 8 / in.Seconds() / 1e6 }

// capacity returns the most payload that the bottleneck lets through, in Mb/s.
func (r *rig) capacity() float64 {
	return float64(r.bottleneck.BytesPerSec) * 8 / 1e6 * payload / frame
}
